// One flow: its health and what helps, its figures, and everything about it in tabs.

import { filtersButton, moveButton, steerButton } from "./actions.js";
import { flowPath, get } from "./api.js";
import { chart } from "./chart.js";
import { h, icon } from "./dom.js";
import { behind, byteRate, count, duration, exact, known, lagCount, lagTitle, plural, sentence } from "./format.js";
import { percentiles, serverNow, span, time } from "./format.js";
import { link, rangeQuery, route, statistic } from "./route.js";
import { ALARMS, badge, furtherAlarms, isLate, listed, since, stateOf } from "./states.js";
import { decisionsTab, partitionTable, partitions, topicsTab, partitionsTab, listPager } from "./tabs_data.js";
import { groupsTab } from "./tabs_groups.js";
import { planTab, runsTab, settingsTab } from "./tabs_runs.js";
import { transformsTab } from "./tabs_transforms.js";
import {
  airflowLink,
  command,
  empty,
  faults,
  flowName,
  helpText,
  loading,
  moreHelp,
  taken,
  teller,
} from "./widgets.js";

const POINTS = 200;
/** Beyond this, a time is shown with its day. */
const SOON_MS = 12 * 3600 * 1000;
const CHARTS = [
  { metric: "replication-records-lag", title: "Lag in records", format: count, tone: "info" },
  { metric: "byte-rate", title: "Throughput", format: byteRate, tone: "good" },
  { metric: "replication-latency-ms", title: "Replication latency", format: duration, tone: "lost" },
];
const CHECKPOINT_CHART = {
  metric: "checkpoint-latency-ms",
  title: "Checkpoint latency",
  format: duration,
  tone: "calm",
};

/** A part that fails leaves the others as they are. */
const part = (promise) =>
  promise.then(
    (value) => ({ value, errors: [] }),
    (error) => {
      if (!error.errors) throw error;
      return { value: null, errors: error.errors };
    },
  );

export function flowView(page, source, target) {
  const path = flowPath(source, target);
  const tabs = [
    topicsTab,
    partitionsTab,
    groupsTab(page.redraw),
    decisionsTab,
    transformsTab(page.redraw),
    planTab(page.redraw),
    runsTab,
    settingsTab,
  ];
  const now = { detail: null, series: {}, tab: {}, topic: null };

  const at = () => {
    const [, , , name, topic] = route().path;
    return { tab: tabs.find((tab) => tab.id === name) ?? topicsTab, topic: name === "topics" ? topic : undefined };
  };
  const asks = () => ["q", "order", "offset", "failed", "copied", "group"].map((name) => route().query.get(name));
  const place = () => JSON.stringify([at().tab.id, at().topic]);

  async function load(signal) {
    const { tab, topic } = at();
    const asked = place();
    const flow = { source, target, flow: `${source}->${target}` };
    const charts = topic ? CHARTS : [...CHARTS, CHECKPOINT_CHART];
    const [detail, content, ...series] = await Promise.all([
      get(path, rangeQuery(), signal),
      part(topic ? loadTopic(flow, topic, signal) : tab.load(flow, signal)),
      ...charts.map(({ metric }) =>
        part(get(`${path}/metrics/${metric}`, { ...rangeQuery(), topic, samples: POINTS }, signal)),
      ),
    ]);
    now.detail = detail;
    now.series = {
      place: topic ?? "",
      ...Object.fromEntries(charts.map(({ metric }, index) => [metric, series[index]])),
    };
    now.tab = { place: asked, ...content };
    document.title = `${source} → ${target} · Replications`;
  }

  const loadTopic = async (flow, topic, signal) => {
    const [answer, found] = await Promise.all([
      get(`${path}/topics/${encodeURIComponent(topic)}`, rangeQuery(), signal),
      partitions(flow, { topic }, signal),
    ]);
    return { ...answer, partitions: found };
  };

  const head = () => {
    const flow = now.detail?.flow;
    const name = flowName({ source, target }, { "data-testid": "flow-title" });
    return h(
      "header",
      { class: "top", key: "flow-head" },
      h(
        "div",
        { class: "line" },
        h(
          "a",
          {
            href: link([]),
            class: "button quiet",
            "data-testid": "back",
            "aria-label": "All flows",
            title: "All flows (u)",
          },
          icon("back"),
        ),
        h("h1", null, name),
        flow
          ? badge(flow.health, { class: `badge big ${stateOf(flow.health.state).tone}`, "data-testid": "flow-state" })
          : null,
        flow ? since(flow.health.since_ms, { class: "muted number" }) : null,
        flow ? teller(flow, { "data-testid": "teller" }) : null,
      ),
      page.controls(),
    );
  };

  function draw() {
    if (!now.detail) return loading("the flow");
    const { flow, errors } = now.detail;
    const { tab, topic } = at();
    const charts = topic ? CHARTS : [...CHARTS, CHECKPOINT_CHART];
    const fresh = now.series.place === (topic ?? "");
    return [
      faults(errors),
      health(flow, page.reload),
      topic ? null : tiles(flow),
      topic ? topicHead(source, target, topic, now.tab.place === place() ? now.tab.value?.topic : null) : null,
      h(
        "section",
        { class: "charts", "aria-label": "Figures over time", key: `charts ${topic ?? ""}` },
        charts.map(({ metric, ...rest }) => drawn(metric, rest, fresh ? now.series[metric] : null)),
      ),
      h(
        "section",
        { class: "panel", key: "tabs" },
        tabBar(tabs, tab, flow, source, target),
        h(
          "div",
          {
            class: "tab",
            role: "group",
            "aria-label": topic ?? tab.label,
            "data-testid": `panel-${tab.id}`,
            key: `tab ${tab.id} ${topic ?? ""}`,
          },
          now.tab.place === place() ? content(tab, topic, flow) : loading(topic ?? tab.label.toLowerCase()),
        ),
      ),
    ];
  }

  function content(tab, topic, flow) {
    const { value, errors } = now.tab;
    if (!value) return faults(errors, "tab-faults");
    const shownFaults = faults(value.errors, "tab-faults");
    if (!topic) return [shownFaults, tab.draw(value, flow, now.detail)];
    const found = value.partitions;
    return [
      shownFaults,
      found.partitions.length ? partitionTable(found.partitions, flow) : empty("No partitions reported", null),
      listPager(found),
    ];
  }

  return { load, draw, head, asks };
}

function drawn(metric, options, found) {
  return chart({
    ...options,
    key: metric,
    series: found?.value ?? null,
    fault: found?.errors[0]?.message ?? null,
    testid: `chart-${metric}`,
  });
}

/** Why, since when, what helps; and below it what can be done anyway. */
function health(flow, reload) {
  const { health: state } = flow;
  const alarms = furtherAlarms(flow);
  const { tone } = stateOf(state.state);
  // Where all is well there is nothing to help with.
  const help = ["running", "idle"].includes(state.state) ? null : state.help;
  // Help for the state comes first; an alarm's button only where the state needs none.
  const first = help ? help.action : alarms.find((alarm) => alarm.help?.action)?.help.action;
  return h(
    "section",
    { class: `panel health ${tone}`, "aria-label": "Health", key: "health", "data-testid": "health" },
    h(
      "div",
      { class: "why" },
      h("p", { class: "break" }, h("b", { "data-testid": "cause" }, sentence(state.cause, flow.flow))),
      helpText(help),
      help?.command ? command(help.command) : null,
      alarms.length
        ? h(
            "ul",
            { class: "alarms" },
            alarms.map((alarm) => alarmLine(alarm, flow)),
          )
        : null,
    ),
    h(
      "div",
      { class: "line steering" },
      steerButton("runs", flow, reload, { primary: first === "run" }),
      steerButton(flow.paused ? "resume" : "pause", flow, reload, { primary: first === "resume" }),
      filtersButton(flow, reload, { primary: first === "filters" }),
      moveButton(flow, reload, { primary: first === "failover" }),
      airflowLink(flow.dag_url, "Open in Airflow", "open-dag"),
    ),
  );
}

function alarmLine(alarm, flow) {
  const tone = alarm.severity === "critical" ? "bad" : "warn";
  const help = alarm.help?.command === flow.health.help?.command ? null : alarm.help?.command;
  return h(
    "li",
    { "data-testid": `alarm-${alarm.kind}` },
    h("span", { class: `chip ${tone}` }, icon("warning"), ALARMS[alarm.kind] ?? alarm.kind),
    since(alarm.since_ms, { class: "muted number" }),
    h("span", { class: "break" }, sentence(alarmText(alarm, flow), flow.flow), " ", moreHelp(alarm.help)),
    help ? command(help) : null,
  );
}

/** The text of an alarm, without the error that is already in the cause above it. */
function alarmText(alarm, { health: state, last_run: run }) {
  const error = run?.error ?? run?.partition_errors[0];
  return error && state.cause.includes(error) ? alarm.text.replace(`: ${error}`, "") : alarm.text;
}

/** The current figures, each with its age. */
function tiles(flow) {
  const { metrics, heartbeats, last_run: run } = flow;
  const stat = statistic();
  const figure = (name) => metrics[name]?.[stat];
  const late = isLate(flow);
  const tile = (name, value, detail, at) =>
    h(
      "div",
      { class: "tile", key: name },
      h("dt", null, name),
      h(
        "dd",
        null,
        h("b", { class: "number" }, value),
        h("span", { class: "muted" }, detail),
        at ? taken(at, late) : null,
      ),
    );
  const latest = (name) => metrics[name]?.latest_ms ?? flow.reported_ms;
  const heard = heartbeats ? (known(heartbeats.age_ms) ? span(heartbeats.age_ms) : "silent") : "–";
  const way = heartbeats?.corrected_latency_ms ?? heartbeats?.latency_ms;
  const hops = (heartbeats?.hops ?? [])
    .map((hop) => `${hop.flow}: ${duration(hop.corrected_ms ?? hop.latency_ms)}`)
    .join(", ");
  const travelled = heartbeats?.silent
    ? (heartbeats.sentence ?? "none arrived")
    : known(way)
      ? `${duration(way)} in transit`
      : "none seen";
  return h(
    "dl",
    { class: "tiles", key: "tiles", "data-testid": "tiles" },
    tile("Lag", h("span", { title: lagTitle(flow) }, lagCount(flow)), lagTold(flow), flow.lag_ms),
    tile(
      `Throughput, ${stat}`,
      byteRate(figure("byte-rate")),
      known(figure("record-rate")) ? `${count(figure("record-rate"))} records/s` : "none reported",
      latest("byte-rate"),
    ),
    tile(
      `Replication latency, ${stat}`,
      duration(figure("replication-latency-ms")),
      percentiles(metrics["replication-latency-ms"], duration) ?? "percentiles unknown",
      latest("replication-latency-ms"),
    ),
    tile(
      `Checkpoint latency, ${stat}`,
      duration(figure("checkpoint-latency-ms")),
      listed(flow) ? `${plural(flow.groups, "group")}, ${flow.untranslated_groups} untranslated` : "no groups seen",
      latest("checkpoint-latency-ms"),
    ),
    tile(
      "Heartbeat age",
      heard,
      h("span", { title: hops || heartbeats?.sentence }, travelled),
      flow.reported_ms,
    ),
    tile(
      "Last run",
      run ? (run.ok ? "done" : run.state) : "–",
      run ? `${plural(run.records, "record")}${took(run)}` : "none yet",
      run?.finished_ms ?? run?.started_ms ?? run?.reported_ms,
    ),
    tile("Next run", nextRun(flow), flow.paused ? "resume the flow" : "as scheduled", null),
  );
}

/** What the tile's large figure does not say. */
function lagTold(flow) {
  if (flow.lag_fault) return h("span", { class: "fault-text", title: flow.lag_fault }, "a cluster does not respond");
  const bounds = flow.lag_bounds;
  if (!known(flow.lag)) return bounds ? `unknown in ${bounds.unknown} of ${plural(bounds.parts, "partition")}` : "unknown";
  const records = count(flow.lag) === exact(flow.lag) ? "records" : exact(flow.lag);
  return behind(flow) ? `${records}, ${behind(flow)} behind` : records;
}

function took(run) {
  if (run.started_ms && run.finished_ms) return `, ${duration(run.finished_ms - run.started_ms)}`;
  return run.state === "running" ? ", running" : "";
}

function nextRun(flow) {
  if (flow.paused) return "paused";
  if (!known(flow.next_run_ms)) return "–";
  if (flow.next_run_ms <= serverNow()) return "due";
  return flow.next_run_ms - serverNow() < SOON_MS
    ? time(flow.next_run_ms).slice(11)
    : time(flow.next_run_ms).slice(5, 16);
}

function topicHead(source, target, name, topic) {
  const copy =
    topic && topic.remote_topic !== name ? h("span", { class: "muted break" }, `→ ${topic.remote_topic}`) : null;
  const figures = topic
    ? [
        h(
          "span",
          { class: "number", title: lagTitle(topic) },
          h("b", null, lagCount(topic)),
          behind(topic) ? ` behind, ${behind(topic)}` : " behind",
        ),
        h("span", { class: "number" }, plural(topic.partitions, "partition")),
        taken(topic.lag_ms),
      ]
    : null;
  return h(
    "div",
    { class: "line topic-head", key: "topic", "data-testid": "topic-head" },
    h(
      "a",
      { href: link(["flows", source, target, "topics"]), class: "button quiet", "data-testid": "all-topics" },
      icon("back"),
      "All topics",
    ),
    h("h2", { class: "break" }, name),
    copy,
    figures,
  );
}

function tabBar(tabs, chosen, flow, source, target) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Parts of the flow" },
    tabs.map((tab) =>
      h(
        "a",
        {
          key: tab.id,
          href: link(["flows", source, target, tab.id]),
          "aria-current": tab === chosen ? "page" : null,
          "data-testid": `tab-${tab.id}`,
        },
        tab.label,
        tab.number && listed(flow) ? h("small", { class: "number" }, count(tab.number(flow))) : null,
      ),
    ),
  );
}
