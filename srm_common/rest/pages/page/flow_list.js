// The first view: which flow is behind and why, the picture of all of them, and the table.

import { steerButton, helpButton } from "./actions.js";
import { get } from "./api.js";
import { h, icon } from "./dom.js";
import { behind, byteRate, count, duration, exact, known, lagCount, lagFigure } from "./format.js";
import { lagTitle, leastLag, plural, sentence, spread, verifiedFigure } from "./format.js";
import { MOST_CLUSTERS, clusterGraph } from "./graph.js";
import { rangeQuery, route, setQuery, statistic } from "./route.js";
import { sparkline } from "./sparkline.js";
import {
  STATES,
  alarmChip,
  badge,
  byUrgency,
  furtherAlarms,
  isLate,
  listed,
  needsSomebody,
  since,
  stateOf,
} from "./states.js";
import { sortable } from "./table.js";
import {
  button,
  command,
  empty,
  faults,
  flowLink,
  helpText,
  loading,
  pager,
  search,
  taken,
  teller,
} from "./widgets.js";

const ASKED = 1000;
const ROWS = 50;
const WORST = 3;

/** Columns that can be sorted by: name in the address -> figure. */
const SORTS = {
  flow: null,
  lag: leastLag,
  throughput: (flow) => flow.metrics["byte-rate"]?.[statistic()],
  latency: (flow) => flow.metrics["replication-latency-ms"]?.[statistic()],
  checkpoints: (flow) => flow.metrics["checkpoint-latency-ms"]?.[statistic()],
};

export function flowList(page) {
  let answer = null;
  let clusters = [];

  async function load(signal) {
    const [list, graph] = await Promise.all([
      get("flows", { ...rangeQuery(), limit: ASKED }, signal),
      get("clusters", {}, signal).catch((error) => ({ clusters: [], errors: error.errors ?? [] })),
    ]);
    answer = { ...list, errors: [...list.errors, ...graph.errors] };
    clusters = graph.clusters;
    document.title = title(answer.flows);
  }

  function draw() {
    if (!answer) return loading("flows");
    if (!answer.flows.length) return [faults(answer.errors), noFlows()];
    const filters = chosen();
    const flows = sorted(answer.flows.filter((flow) => matches(flow, filters)));
    const shown = flows.slice(filters.offset, filters.offset + ROWS);
    return [
      faults(answer.errors),
      h(
        "div",
        { class: "overview", key: "overview" },
        attention(answer.flows, page.reload),
        picture(clusters, answer.flows),
      ),
      h(
        "section",
        { class: "panel", "aria-label": "Flows", key: "flows" },
        filterBar(answer.flows, filters),
        flows.length ? table(shown, page.reload) : empty("No flow matches", "Change the search or the filters above."),
        pager(filters.offset, ROWS, flows.length, (offset) => setQuery({ offset })),
        answer.total > answer.flows.length
          ? h("p", { class: "muted note" }, `The first ${ASKED} of ${exact(answer.total)} flows are shown.`)
          : null,
      ),
    ];
  }

  return { load, draw };
}

function title(flows) {
  const waiting = flows.filter(needsSomebody).length;
  return waiting ? `(${waiting}) Replications` : "Replications";
}

const noFlows = () =>
  empty(
    "There are no flows yet",
    "A flow is a line like east->west.enabled = true in the properties file. It appears here with its DAG.",
  );

function chosen() {
  const { query } = route();
  return {
    text: (query.get("q") ?? "").toLowerCase(),
    states: new Set(query.getAll("status")),
    sources: new Set(query.getAll("source")),
    offset: Number(query.get("offset")) || 0,
  };
}

function matches(flow, { text, states, sources }) {
  const words = `${flow.flow} ${flow.source} → ${flow.target} ${flow.dag_id}`.toLowerCase();
  return (
    words.includes(text) &&
    (!states.size || states.has(flow.health.state)) &&
    (!sources.size || sources.has(flow.source))
  );
}

function sorted(flows) {
  const order = route().query.get("sort") ?? "";
  const name = order.replace(/^-/, "");
  const sign = order.startsWith("-") ? -1 : 1;
  if (name === "flow") return flows.sort((one, other) => sign * one.flow.localeCompare(other.flow));
  const figure = SORTS[name];
  if (!figure) return flows.sort(byUrgency);
  // Without a figure: at the end, whichever way it is sorted.
  const value = (flow) => figure(flow) ?? sign * Infinity;
  return flows.sort((one, other) => sign * (value(one) - value(other) || 0) || byUrgency(one, other));
}

/** The answer to "is anything wrong?": the worst flows with cause and help, or that all is well. */
function attention(flows, reload) {
  const waiting = flows.filter(needsSomebody).sort(byUrgency);
  const rate = flows.reduce((sum, flow) => sum + (isLate(flow) ? 0 : (flow.metrics["byte-rate"]?.latest ?? 0)), 0);
  const measured = flows.filter((flow) => known(leastLag(flow)));
  const lag = measured.reduce((sum, flow) => sum + leastLag(flow), 0);
  const silent = flows.filter((flow) => !known(flow.lag)).length;
  const total = [
    plural(flows.length, "flow"),
    measured.length ? byteRate(rate) : null,
    measured.length ? `${silent ? "at least " : ""}${count(lag)} records behind in total` : null,
    silent ? (measured.length ? `lag unknown in ${silent} of them` : "lag unknown") : null,
  ];
  const headline = waiting.length
    ? `${plural(waiting.length, "flow")} ${waiting.length === 1 ? "needs" : "need"} attention`
    : "All flows are healthy";
  return h(
    "section",
    { class: "panel attention", "aria-label": "Attention", "data-testid": "attention" },
    h(
      "div",
      { class: `headline ${waiting.length ? stateOf(waiting[0].health.state).tone : "good"}` },
      icon(waiting.length ? "warning" : "check"),
      h("div", null, h("h2", { "data-testid": "headline" }, headline), h("p", { class: "muted" }, total.filter(Boolean).join(" · "))),
    ),
    h(
      "ol",
      null,
      waiting.slice(0, WORST).map((flow) => trouble(flow, reload)),
    ),
    waiting.length > WORST
      ? h("p", { class: "muted more" }, `and ${waiting.length - WORST} more in the table below`)
      : null,
  );
}

function trouble(flow, reload) {
  const { health, alarms } = flow;
  const first = stateOf(health.state).act
    ? health
    : { cause: alarms[0].text, help: alarms[0].help, since_ms: alarms[0].since_ms };
  return h(
    "li",
    { class: "trouble", key: flow.flow, "data-testid": `trouble-${flow.flow}` },
    h(
      "div",
      { class: "line" },
      badge(health),
      flowLink(flow),
      since(first.since_ms, { class: "muted" }),
      leastLag(flow)
        ? h(
            "span",
            { class: "behind number", title: lagTitle(flow) },
            h("b", null, lagCount(flow)),
            behind(flow) ? ` behind, ${behind(flow)}` : " behind",
          )
        : null,
    ),
    h("p", { class: "break" }, sentence(first.cause, flow.flow)),
    helpText(first.help),
    h(
      "div",
      { class: "line" },
      helpButton(first.help?.action, flow, reload),
      first.help?.command ? command(first.help.command) : null,
    ),
  );
}

function picture(clusters, flows) {
  if (clusters.length < 2 || clusters.length > MOST_CLUSTERS) return null;
  return h(
    "section",
    { class: "panel map", "aria-label": "Clusters and flows" },
    clusterGraph(clusters, flows),
  );
}

function filterBar(flows, { states, sources }) {
  const counts = new Map(Object.keys(STATES).map((state) => [state, 0]));
  for (const flow of flows) counts.set(flow.health.state, (counts.get(flow.health.state) ?? 0) + 1);
  const names = [...new Set(flows.map((flow) => flow.source))].sort();
  const toggled = (set, value) => (set.has(value) ? [...set].filter((one) => one !== value) : [...set, value]);
  const active = states.size || sources.size || route().query.get("q");
  return h(
    "div",
    { class: "filters" },
    search("Search flows", route().query.get("q") ?? "", (q) => setQuery({ q, offset: null }), "search"),
    h(
      "div",
      { class: "chips", role: "group", "aria-label": "Filter by status" },
      [...counts]
        .filter(([, number]) => number)
        .map(([state, number]) => {
          const { word, tone, picture: shape } = stateOf(state);
          const props = {
            type: "button",
            key: state,
            class: `chip choice ${tone}`,
            "aria-pressed": String(states.has(state)),
            "data-testid": `status-${state}`,
          };
          return h(
            "button",
            { ...props, onclick: () => setQuery({ status: toggled(states, state), offset: null }) },
            icon(shape),
            word,
            h("b", null, number),
          );
        }),
    ),
    names.length > 1
      ? h(
          "details",
          {
            class: "menu",
            "data-testid": "sources",
            onkeydown: (event) => event.key === "Escape" && event.currentTarget.removeAttribute("open"),
          },
          h(
            "summary",
            { class: "button" },
            sources.size ? `Source: ${[...sources].join(", ")}` : "Source: all",
            icon("down"),
          ),
          h(
            "div",
            { class: "menu-list" },
            names.map((name) =>
              h(
                "label",
                { key: name },
                h("input", {
                  type: "checkbox",
                  checked: sources.has(name),
                  "data-testid": `source-${name}`,
                  onchange: () => setQuery({ source: toggled(sources, name), offset: null }),
                }),
                h("span", { class: "break" }, name),
              ),
            ),
          ),
        )
      : null,
    active
      ? button("Clear", {
          kind: "quiet",
          picture: "close",
          testid: "clear-filters",
          onclick: () => setQuery({ q: null, status: null, source: null, offset: null }),
        })
      : null,
  );
}

const by = (name, text, right = false) => sortable(name, text, { right, parameter: "sort" });

function table(flows, reload) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "rows flows", "data-testid": "flows" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          by("flow", "Flow"),
          by("lag", "Lag", true),
          by("throughput", "Throughput", true),
          by("latency", "Latency", true),
          by("checkpoints", "Checkpoints", true),
          h("th", { scope: "col", class: "right" }, "Topics"),
          h("th", { scope: "col", class: "right" }, "Groups"),
          h("th", { scope: "col" }, "Verified"),
          h("th", { scope: "col" }, "Reported"),
          h("th", { scope: "col" }, h("span", { class: "hide" }, "Actions")),
        ),
      ),
      h(
        "tbody",
        null,
        flows.map((flow) => row(flow, reload)),
      ),
    ),
  );
}

/** Whether the copies are proved, and since when none was compared again. */
function verified(flow) {
  const { word, tone, title } = verifiedFigure(flow);
  return [
    h("span", { class: tone, title, "data-testid": `verified-${flow.flow}` }, word),
    flow.verified_ms ? [", ", taken(flow.verified_ms)] : null,
  ];
}

function row(flow, reload) {
  const { tone } = stateOf(flow.health.state);
  const late = isLate(flow);
  const figure = (name, format) =>
    h("span", { title: spread(flow.metrics[name], format) }, format(flow.metrics[name]?.[statistic()]));
  const cell = (label, ...content) => h("td", { class: "right number", "data-label": label }, content);
  return h(
    "tr",
    {
      key: flow.flow,
      class: `${tone} ${needsSomebody(flow) ? "act" : ""} ${late ? "late" : ""}`,
      "data-testid": `flow-${flow.flow}`,
    },
    h(
      "th",
      { scope: "row" },
      h(
        "div",
        { class: "line" },
        badge(flow.health, { "data-testid": `badge-${flow.flow}` }),
        flowLink(flow, { class: "row-link", "data-testid": `open-${flow.flow}` }),
        teller(flow),
      ),
      h("p", { class: "cause muted", title: flow.health.cause }, sentence(flow.health.cause, flow.flow)),
      furtherAlarms(flow).length ? h("div", { class: "line" }, furtherAlarms(flow).map(alarmChip)) : null,
    ),
    cell(
      "Lag",
      h(
        "span",
        { class: "with-spark" },
        lagFigure(flow),
        sparkline(
          flow.sparklines["replication-records-lag"],
          tone === "good" ? "info" : tone,
          "Lag over the selected time range",
        ),
      ),
    ),
    cell(
      "Throughput",
      h(
        "span",
        { class: "with-spark" },
        figure("byte-rate", byteRate),
        sparkline(flow.sparklines["byte-rate"], "good", "Throughput over the selected time range"),
      ),
    ),
    cell("Latency", figure("replication-latency-ms", duration)),
    cell("Checkpoints", figure("checkpoint-latency-ms", duration)),
    cell("Topics", listed(flow) ? count(flow.topics) : "–"),
    cell("Groups", listed(flow) ? count(flow.groups) : "–"),
    h("td", { class: "number", "data-label": "Verified" }, verified(flow)),
    h("td", { class: "number", "data-label": "Reported" }, taken(flow.reported_ms, late)),
    h(
      "td",
      { class: "row-actions" },
      steerButton("runs", flow, reload, { short: true }),
      steerButton(flow.paused ? "resume" : "pause", flow, reload, { short: true }),
    ),
  );
}
