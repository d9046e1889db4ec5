// What runs did and would do: runs with their errors, the plan, and the settings behind them.

import { flowPath, get, post } from "./api.js";
import { h, icon } from "./dom.js";
import { age, bytes, count, duration, exact, lagCount, lagTitle, plural } from "./format.js";
import { whyNot } from "./session.js";
import { table } from "./table.js";
import { listBar, listPager, listQuery } from "./tabs_data.js";
import { airflowLink, button, empty, faults, taken } from "./widgets.js";

const STATES = {
  done: ["good", "check", "Done"],
  failed: ["bad", "cross", "Failed"],
  running: ["info", "refresh", "Running"],
};

export const runsTab = {
  id: "runs",
  label: "Runs",
  load(flow, signal) {
    const { offset, limit } = listQuery();
    return get(`${flowPath(flow.source, flow.target)}/runs`, { offset, limit }, signal);
  },
  draw(answer) {
    const took = (row) => (row.started_ms && row.finished_ms ? duration(row.finished_ms - row.started_ms) : "–");
    const columns = [
      { label: "Run", cell: runState },
      { label: "Took", right: true, cell: took },
      { label: "Records", right: true, cell: (row) => h("span", { title: exact(row.records) }, count(row.records)) },
      { label: "Bytes", right: true, cell: (row) => bytes(row.bytes) },
      { label: "Lag after it", right: true, cell: (row) => h("span", { title: lagTitle(row) }, lagCount(row)) },
      { label: "Passes", right: true, cell: (row) => exact(row.passes) },
      { label: "Transactions", right: true, cell: (row) => count(row.transactions) },
      { label: "Retries", right: true, cell: (row) => count(row.retries) },
      { label: "Re-encoded", right: true, cell: (row) => count(row.reencoded_records) },
      {
        label: "Lost",
        right: true,
        cell: (row) => (row.lost_records ? h("b", { class: "fault-text" }, count(row.lost_records)) : "0"),
      },
      { label: "Dropped", right: true, cell: (row) => count(row.dropped_records) },
      { label: "Skipped", right: true, cell: skipped },
    ];
    return [
      answer.runs.length
        ? table({
            label: "Runs",
            columns,
            rows: answer.runs,
            key: (row) => row.run_id,
            below: told,
            tone: (row) => (row.ok ? "" : "bad"),
            testid: "run",
          })
        : empty("No runs reported yet", "The report task of each run adds it here."),
      listPager(answer),
    ];
  },
};

function runState(row) {
  const [tone, picture, word] = STATES[row.state] ?? ["warn", "question", row.state];
  const started = age(row.started_ms ?? row.reported_ms, { class: "number" });
  return h(
    "div",
    { class: "name" },
    h("div", { class: "line" }, h("span", { class: `chip ${tone}` }, icon(picture), word), started),
    row.url
      ? airflowLink(row.url, row.run_id, `open-run-${row.run_id}`)
      : h("small", { class: "muted break" }, row.run_id),
  );
}

/** Records that a transform could not handle. */
function skipped(row) {
  const letters = row.dead_letters ? `${exact(row.dead_letters)} in the dead letter topic` : "none in a dead letter topic";
  return row.skipped_records ? h("b", { class: "fault-text", title: letters }, count(row.skipped_records)) : "0";
}

/** Why it failed, and its notes. */
function told(row) {
  const lines = [row.error, ...row.partition_errors].filter(Boolean);
  const more =
    row.failed_partitions > row.partition_errors.length && row.partition_errors.length
      ? `${row.failed_partitions} partitions failed; the first are shown.`
      : null;
  if (!lines.length && !row.notes.length) return null;
  return h(
    "div",
    { class: "told" },
    lines.map((line) => h("p", { class: "fault break" }, icon("warning"), line)),
    more ? h("p", { class: "muted" }, more) : null,
    row.notes.length ? notes(row.notes) : null,
  );
}

function notes(lines) {
  const list = lines.map((line) => h("p", { class: "muted break" }, line));
  return lines.length < 3
    ? list
    : h("details", { class: "past" }, h("summary", null, plural(lines.length, "note")), list);
}

export function planTab(redraw) {
  // What the next run would change requires queries to both clusters, so it is computed on demand, and kept until the next request.
  const next = { flow: null, answer: null, errors: [], busy: false };

  async function ask(flow) {
    Object.assign(next, { flow: flow.flow, busy: true, errors: [] });
    redraw();
    try {
      next.answer = await post(`${flowPath(flow.source, flow.target)}/plan`);
    } catch (error) {
      if (!error.errors) throw error;
      Object.assign(next, { answer: null, errors: error.errors });
    }
    next.busy = false;
    redraw();
  }

  return {
    id: "plan",
    label: "Plan",
    load: (flow, signal) => get(`${flowPath(flow.source, flow.target)}/plan`, {}, signal),
    draw(answer, flow) {
      const why = next.busy ? "Querying both clusters" : flow.service ? whyNot("read", flow) : null;
      return [
        listBar(
          button(next.busy ? "Querying both clusters…" : "What would the next run change?", {
            picture: "search",
            testid: "plan-next",
            why,
            onclick: () => ask(flow),
          }),
        ),
        next.answer || next.errors.length
          ? h(
              "section",
              { class: "plan", key: "next", "data-testid": "plan-next-result" },
              h("h2", null, "The next run ", next.answer ? taken(next.answer.computed_ms ?? next.answer.now_ms) : null),
              faults(next.errors, "plan-faults"),
              next.answer ? actions(next.answer, "It would change nothing.") : null,
            )
          : null,
        h(
          "section",
          { class: "plan", key: "last", "data-testid": "plan-last" },
          h("h2", null, "The last refresh ", taken(answer.computed_ms)),
          actions(answer, "It changed nothing."),
        ),
      ];
    },
  };
}

function actions(plan, nothing) {
  if (!plan.actions.length && !plan.notes.length) return h("p", { class: "muted" }, nothing);
  const mark = (action) => (action.error ? ["bad", "cross"] : action.done ? ["good", "check"] : ["info", "arrow"]);
  return h(
    "ul",
    { class: "actions" },
    plan.actions.map((action) => {
      const [tone, picture] = mark(action);
      return h(
        "li",
        null,
        h("span", { class: `chip ${tone}` }, icon(picture), action.kind.replaceAll("_", " ")),
        h(
          "span",
          { class: "break" },
          action.sentence.replace(/^done: /, ""),
          action.error ? h("span", { class: "fault-text" }, ` – ${action.error}`) : null,
        ),
      );
    }),
    plan.notes.map((note) =>
      h("li", null, h("span", { class: "chip calm" }, "note"), h("span", { class: "break" }, note)),
    ),
  );
}

export const settingsTab = {
  id: "settings",
  label: "Settings",
  load: async () => ({}),
  draw(_, flow, detail) {
    const rows = Object.entries(detail.settings).sort(([one], [other]) => one.localeCompare(other));
    const columns = [
      { label: "Key", cell: ([name]) => h("code", { class: "break" }, name) },
      { label: "Value", cell: ([, value]) => h("code", { class: "break" }, value) },
    ];
    return [
      h(
        "p",
        { class: "muted note" },
        `${plural(rows.length, "setting")} not at the default. They are changed in the properties file.`,
      ),
      detail.ignored?.length
        ? h(
            "div",
            { class: "note" },
            h("p", null, "Ineffective keys in the file:"),
            h("ul", { "data-testid": "ignored-settings" }, detail.ignored.map((text) => h("li", { class: "break" }, text))),
          )
        : null,
      rows.length ? table({ label: "Settings", columns, rows, key: ([name]) => name, testid: "setting" }) : null,
    ];
  },
};
