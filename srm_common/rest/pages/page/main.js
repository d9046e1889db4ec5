// The Replications page. One view at a time (the list of flows, or one flow), redrawn from the API's responses every
// few seconds; the address (route.js) says which. Modules: dom (elements), format, api, route, session, scheme (dark),
// states, widgets, table, dialog, chart, graph, sparkline, keys; flow_list; flow_view and tabs_*; actions, filter_editor,
// move_wizard.
//
// For tests, data-testid (FLOW is east->west):
// - everywhere: range-1h, stat-max, refresh, auto-refresh, age, page-faults, faults, empty, toast, toast-run, keys
// - list: headline, attention, trouble-FLOW, help-FLOW, graph, graph-FLOW, cluster-east, search, status-failing, sources,
//   source-east, clear-filters, sort-lag, flows, flow-FLOW, badge-FLOW, open-FLOW, alarm-lag_objective, copy-command, more-help,
//   pager, pager-next, pager-previous, pager-text
// - actions: pause-FLOW, resume-FLOW, runs-FLOW, filters-FLOW, failover-FLOW; confirm-pause, confirm-resume,
//   confirm-runs, confirm-offsets, each also with -ok, -cancel, -close, -faults
// - flow: back, flow-title, flow-state, health, cause, open-dag, tiles, chart-byte-rate, tab-topics, panel-topics;
//   topic-search, topic, topic-NAME, open-topic-NAME, topic-head, all-topics; partitions-which-true, partition,
//   partition-NAME-0; group-search, group, group-NAME, open-group-NAME, group-offsets, offset, group-ask, group-apply,
//   apply; decision-search, decisions-which-false, decision, decision-NAME; plan-next, plan-next-result, plan-last;
//   run, run-ID, open-run-ID; setting, setting-KEY
// - filter-editor: filter-topics, filter-topics.exclude, filter-reset-topics, filter-note, filter-preview,
//   filter-outcome, preview-starts, preview-stops, filter-save, filter-cancel, filter-reload, filter-faults,
//   filter-history
// - move-wizard: move-kind-failover, move-mode-disaster, move-groups, move-dry-run, move-again, move-back,
//   move-continue, move-typed, move-start, move-close, move-state, move-steps, step-check, move-positions, position,
//   move-result, move-run, move-faults

import { h, patch } from "./dom.js";
import { flowList } from "./flow_list.js";
import { flowView } from "./flow_view.js";
import { age, serverNow, tick } from "./format.js";
import { get } from "./api.js";
import {
  RANGES,
  STATISTICS,
  airflowWindow,
  go,
  link,
  rangeName,
  route,
  setQuery,
  startRoute,
  statistic,
} from "./route.js";
import { followScheme } from "./scheme.js";
import { startSession } from "./session.js";
import { startKeys } from "./keys.js";
import { button, choices, empty, faults, loading } from "./widgets.js";

const EVERY_MS = 10000;

const root = document.getElementById("page");
const page = { reload, redraw, view: null, name: null, errors: [], loadedMs: null, busy: false, auto: true };
let asking = new AbortController();
let asked = "";
let timer;

function show() {
  const { path, query } = route();
  const name = path.slice(0, 3).join("\n");
  if (name !== page.name) {
    const first = page.name === null;
    Object.assign(page, { name, view: viewOf(path), errors: [], loadedMs: null });
    // The links of the previous view are gone: screen readers start at the top.
    if (!first) root.focus();
    scrollTo(0, 0);
  }
  // What only changes the drawing needs no new figures.
  const needed = JSON.stringify([path, query.get("range"), page.view.asks?.()]);
  redraw();
  if (needed !== asked) reload();
  asked = needed;
}

function viewOf(path) {
  if (!path.length) return flowList(page);
  if (path[0] === "flows" && path.length >= 3) return flowView(page, path[1], path[2]);
  if (path[0] === "dag" && path.length === 2) return flowOfDag(path[1]);
  const back = h("a", { href: link([]) }, "All flows");
  return { load: async () => {}, draw: () => empty("Page not found", "There is nothing at this address.", back) };
}

/** A tab in Airflow knows the DAG only, and also appears on DAGs of something else. */
function flowOfDag(dag) {
  let looked = false;
  const load = async (signal) => {
    const { flows } = await get("flows", { limit: 1000, minutes: 15 }, signal);
    const found = flows.find((flow) => flow.dag_id === dag);
    if (found) go(["flows", found.source, found.target]);
    looked = true;
  };
  const nothing = () =>
    empty(
      "Not a replication DAG",
      `${dag} is not the DAG of a replication flow.`,
      h("a", { href: link([]) }, "All flows"),
    );
  return { load, draw: () => (looked ? nothing() : loading("the flow")) };
}

async function reload() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const { view } = page;
  clearTimeout(timer);
  page.busy = true;
  redraw();
  try {
    // Without the caller's permissions everything is shown, and no action is offered.
    await Promise.all([view.load(signal), startSession().catch(() => {})]);
    Object.assign(page, { errors: [], loadedMs: serverNow() });
  } catch (error) {
    if (signal.aborted) return;
    if (!error.errors) throw error;
    page.errors = error.errors;
  } finally {
    if (!signal.aborted) {
      page.busy = false;
      redraw();
      if (page.auto) timer = setTimeout(later, EVERY_MS);
    }
  }
}

/** No refresh on a hidden page, or behind an open dialog. */
function later() {
  if (document.hidden || document.querySelector("dialog[open]")) timer = setTimeout(later, 1000);
  else reload();
}

function redraw() {
  const failed = page.errors.length && !page.loadedMs;
  const body = nowhere() ? noSuchFlow() : failed ? null : page.view.draw();
  patch(
    root,
    page.view.head?.() ?? h("header", { class: "top", key: "list-head" }, h("h1", null, "Replications"), controls()),
    stale(),
    h("div", { class: `view ${page.errors.length && !nowhere() ? "old" : ""}`, key: page.name || "list" }, body),
  );
  root.setAttribute("aria-busy", String(page.busy));
}

/** Whether the API answered that there is no such flow, which is an answer, too. */
const nowhere = () => page.errors[0]?.code === "unknown_flow";

const noSuchFlow = () =>
  empty(
    "Flow not found",
    "It is not in the properties file, and it has not reported recently.",
    h("a", { href: link([]) }, "All flows"),
  );

/** Range, statistic and the age of the data; every view has them at the top right. */
export function controls() {
  return h(
    "div",
    { class: "controls" },
    choices(
      "Time range",
      RANGES.map(([value, text]) => [value, text]),
      rangeName(),
      (range) => setQuery({ range }),
      "range",
    ),
    choices(
      "Statistic",
      STATISTICS.map((one) => [one, one.toUpperCase()]),
      statistic(),
      (stat) => setQuery({ stat }),
      "stat",
    ),
    h(
      "div",
      { class: "freshness" },
      button("", {
        picture: "refresh",
        kind: `quiet ${page.busy ? "busy" : ""}`,
        "aria-label": "Refresh now",
        title: "Refresh now (r)",
        testid: "refresh",
        onclick: reload,
      }),
      h(
        "button",
        {
          type: "button",
          class: `auto ${page.errors.length && !nowhere() ? "warn" : ""}`,
          "aria-pressed": String(page.auto),
          "data-testid": "auto-refresh",
          title: page.auto ? "Refreshes every 10 s; click to turn off" : "Automatic refresh is off; click to turn on",
          onclick: toggleAuto,
        },
        page.errors.length && !nowhere() ? "No response" : page.auto ? "Live" : "Stopped",
      ),
      page.loadedMs ? age(page.loadedMs, { class: "muted number", "data-testid": "age" }) : null,
    ),
  );
}

function toggleAuto() {
  page.auto = !page.auto;
  if (page.auto) reload();
  else clearTimeout(timer);
  redraw();
}

/** When the latest request failed: what failed, and that the data below is old. */
function stale() {
  if (!page.errors.length || nowhere()) return null;
  const outdated = page.loadedMs ? { message: "The data below is from before that." } : null;
  return faults([...page.errors, ...(outdated ? [outdated] : [])], "page-faults");
}

/** Keys go to Airflow's window at first; take them, unless the reader is typing there. */
function takeKeys() {
  const there = airflowWindow()?.document.activeElement;
  if (there && !there.matches("input, textarea, select")) root.focus({ preventScroll: true });
}

page.controls = controls;
followScheme(() => page.view && redraw());
startRoute((dag) => ["dag", dag]);
startKeys(page);
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", () => !document.hidden && page.auto && reload());
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(event.target)) menu.open = false;
});
setInterval(tick, 1000);
show();
takeKeys();
