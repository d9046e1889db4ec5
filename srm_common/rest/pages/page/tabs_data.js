// What a flow copies, and why: its topics, partitions and decisions.

import { flowPath, get } from "./api.js";
import { h, icon } from "./dom.js";
import { NOTHING, age, behindFigure, byteRate, count, duration, exact, known, lagCount, lagTitle, partitionVerified, plural, recordRate } from "./format.js";
import { link, rangeQuery, route, setQuery, statistic } from "./route.js";
import { table } from "./table.js";
import { choices, empty, pager, partTaken, search, taken } from "./widgets.js";

const ROWS = 50;
/** The order of topics without one in the address. */
const USUAL = "-lag";

/** What the address says about a list: the words to search for, the order, and from where on. */
export function listQuery() {
  const { query } = route();
  return { search: query.get("q"), order: query.get("order"), offset: Number(query.get("offset")) || 0, limit: ROWS };
}

export const listSearch = (label, testid) =>
  search(label, route().query.get("q") ?? "", (q) => setQuery({ q, offset: null }), testid);

export const listPager = (answer, rows = ROWS) =>
  pager(answer.offset, rows, answer.total, (offset) => setQuery({ offset }));

/** One bar above a list. */
export const listBar = (...parts) => h("div", { class: "filters", key: "bar" }, parts);

/** A list that is searched by name: its bar, its table or a text in its place, and its pages.
 * @param noun of a row: "topic"
 * @param none what to say when nothing matches the search, and when there is nothing at all
 * @param how the table, see table.js
 */
export function searchedList(noun, answer, rows, none, how) {
  const searched = route().query.get("q");
  return [
    listBar(listSearch(`Search ${noun}s`, `${noun}-search`), h("span", { class: "muted" }, plural(answer.total, noun))),
    rows.length
      ? table({ ...how, rows, testid: noun })
      : empty(searched ? `No ${noun} matches` : `No ${noun}s yet`, searched ? none.matches : none.yet),
    listPager(answer),
  ];
}

const figure = (name) => (row) => row.metrics[name]?.[statistic()];
/** The percentiles of a latency, as the API has them; `prefix` is what their names begin with. */
const spreadOf = (stat, prefix = "") => {
  const percentiles = ["p50", "p95", "p99"].map((name) => stat?.[prefix + name]);
  return percentiles.every(known) ? h("span", { class: "number" }, percentiles.map(duration).join(" / ")) : NOTHING;
};
const failure = (row) => (row.error ? h("p", { class: "fault break" }, icon("warning"), row.error) : null);
const failed = (row) => (row.error || row.failed_partitions ? "bad" : "");

export const topicsTab = {
  id: "topics",
  label: "Topics",
  number: (flow) => flow.topics,
  load: (flow, signal) =>
    get(
      `${flowPath(flow.source, flow.target)}/topics`,
      { ...listQuery(), order: listQuery().order ?? USUAL, ...rangeQuery() },
      signal,
    ),
  draw(answer, flow) {
    const columns = [
      { label: "Topic", sort: "topic", cell: (row) => topicCell(row, flow) },
      {
        label: "Lag",
        sort: "lag",
        right: true,
        cell: (row) => h("b", { title: lagTitle(row) }, lagCount(row)),
      },
      { label: "Behind", right: true, cell: (row) => behindFigure(row, flow) },
      { label: "Throughput", sort: "byte-rate", right: true, cell: (row) => byteRate(figure("byte-rate")(row)) },
      { label: "Records", right: true, cell: (row) => recordRate(figure("record-rate")(row)) },
      {
        label: "Latency",
        sort: "replication-latency-ms",
        right: true,
        cell: (row) => duration(figure("replication-latency-ms")(row)),
      },
      { label: "p50 / p95 / p99", right: true, cell: (row) => spreadOf(row.metrics["replication-latency-ms"]) },
      {
        label: "Partitions",
        right: true,
        cell: (row) =>
          row.failed_partitions
            ? h("span", { class: "fault-text" }, `${row.failed_partitions} of ${row.partitions} failed`)
            : count(row.partitions),
      },
      { label: "Newest record", cell: (row) => age(row.newest_record_ms, { class: "number" }) },
      { label: "Reported", cell: (row) => partTaken(row, flow) },
    ];
    const none = {
      matches: "The search covers topics and their copies.",
      yet: "Topics appear with the first run that finds any. Decisions show why a topic is not copied.",
    };
    const how = { label: "Topics", columns, key: (row) => row.topic, below: failure, tone: failed, usual: USUAL };
    return searchedList("topic", answer, answer.topics, none, how);
  },
};

function topicCell(row, flow) {
  const href = link(["flows", flow.source, flow.target, "topics", row.topic]);
  const copy = row.remote_topic === row.topic ? null : h("small", { class: "muted break" }, `→ ${row.remote_topic}`);
  return h(
    "div",
    { class: "name" },
    h("a", { href, class: "row-link break", "data-testid": `open-topic-${row.topic}` }, row.topic),
    copy,
  );
}

export const partitionsTab = {
  id: "partitions",
  label: "Partitions",
  number: (flow) => flow.partitions,
  load: (flow, signal) => partitions(flow, { failed: route().query.get("failed") }, signal),
  draw(answer, flow) {
    const only = route().query.get("failed") ?? "";
    const chosen = choices(
      "Which partitions",
      [
        ["", "All"],
        ["true", "Failed"],
      ],
      only,
      (failed) => setQuery({ failed, offset: null }),
      "partitions-which",
    );
    const nothing = only
      ? empty("No partition failed", "All of them were copied in the newest run.")
      : empty("No partitions yet", "Partitions appear with the flow's first run.");
    return [
      listBar(chosen, h("span", { class: "muted" }, plural(answer.total, "partition"))),
      answer.partitions.length ? partitionTable(answer.partitions, flow) : nothing,
      listPager(answer),
    ];
  },
};

/** Partitions of a flow, or with `topic` of one of its topics. */
export function partitions(flow, query, signal) {
  const { offset, limit } = listQuery();
  return get(`${flowPath(flow.source, flow.target)}/partitions`, { ...query, offset, limit }, signal);
}

export function partitionTable(rows, flow) {
  const columns = [
    { label: "Partition", cell: (row) => h("span", { class: "break" }, row.topic, h("b", null, `-${row.partition}`)) },
    { label: "Lag", right: true, cell: (row) => h("b", { title: lagTitle(row) }, count(row.lag)) },
    { label: "Behind", right: true, cell: (row) => behindFigure(row, flow) },
    { label: "Copied up to", right: true, cell: (row) => exact(row.position) },
    { label: "End offset at the source", right: true, cell: (row) => exact(row.end) },
    { label: "Latency: min", right: true, cell: (row) => duration(row.latency_ms_min) },
    { label: "average", right: true, cell: (row) => duration(row.latency_ms_avg) },
    { label: "p50 / p95 / p99", right: true, cell: (row) => spreadOf(row, "latency_ms_") },
    { label: "max", right: true, cell: (row) => duration(row.latency_ms_max) },
    { label: "Newest record", cell: (row) => age(row.newest_record_ms, { class: "number" }) },
    { label: "Verified", cell: verified },
    { label: "Reported", cell: (row) => partTaken(row, flow) },
  ];
  return table({
    label: "Partitions",
    columns,
    rows,
    key: (row) => `${row.topic}-${row.partition}`,
    below: (row) => (row.error || row.verified?.difference ? [failure(row), different(row)] : null),
    tone: (row) => failed(row) || (row.verified?.difference ? "bad" : ""),
    testid: "partition",
  });
}

/** The result of the newest verification of a partition, and its time. */
function verified(row) {
  const { word, tone, title } = partitionVerified(row);
  return [
    h("span", { class: tone, title, "data-testid": `verified-${row.topic}-${row.partition}` }, word),
    row.verified ? [", ", age(row.verified.checked_ms, { class: "number" })] : null,
  ];
}

const different = (row) =>
  row.verified?.difference
    ? h("p", { class: "fault break" }, icon("warning"), `The copy differs: ${row.verified.difference.sentence}`)
    : null;

export const decisionsTab = {
  id: "decisions",
  label: "Decisions",
  load(flow, signal) {
    const { search: text, offset, limit } = listQuery();
    return get(
      `${flowPath(flow.source, flow.target)}/decisions`,
      { search: text, copied: route().query.get("copied"), offset, limit },
      signal,
    );
  },
  draw(answer) {
    const options = [
      ["", "All"],
      ["true", "Copied"],
      ["false", "Not copied"],
    ];
    const chosen = choices(
      "Which topics",
      options,
      route().query.get("copied") ?? "",
      (copied) => setQuery({ copied, offset: null }),
      "decisions-which",
    );
    const columns = [
      { label: "Topic at the source", cell: (row) => h("span", { class: "break" }, row.topic) },
      {
        label: "Decision",
        cell: (row) =>
          h(
            "span",
            { class: `chip ${row.copied ? "good" : "calm"}` },
            icon(row.copied ? "check" : "close"),
            row.copied ? "Copied" : "Not copied",
          ),
      },
      { label: "Because", cell: (row) => h("span", { class: "break" }, row.reason) },
      { label: "Copy", cell: (row) => h("span", { class: "muted break" }, row.copied ? (row.remote_topic ?? "") : "") },
    ];
    const decided = answer.reported_ms ? h("span", { class: "muted" }, "decided ", taken(answer.reported_ms)) : null;
    return [
      listBar(listSearch("Search topics", "decision-search"), chosen, decided),
      answer.decisions.length
        ? table({ label: "Decisions", columns, rows: answer.decisions, key: (row) => row.topic, testid: "decision" })
        : empty(
            "No decisions to show",
            "Every topic refresh records its decision and reason for each topic of the source here.",
          ),
      listPager(answer),
    ];
  },
};
