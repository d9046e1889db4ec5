// Figures and times as people read them. Times of the API are the server's; ages are computed with its clock, not ours.

import { h } from "./dom.js";

export const NOTHING = "–";

const clock = { aheadMs: 0 };

/** Take over the server's clock: `nowMs` is what it said just now. */
export function setClock(nowMs) {
  if (Number.isFinite(nowMs)) clock.aheadMs = nowMs - Date.now();
}

/** The server's time, epoch milliseconds. */
export const serverNow = () => Date.now() + clock.aheadMs;

/** A count, short: 1 284 551 is "1.28 M". */
export function count(value) {
  if (!known(value)) return NOTHING;
  return Number.isInteger(value) && Math.abs(value) < 10000
    ? value.toLocaleString("en")
    : scaled(value, ["", " k", " M", " G", " T", " P"]);
}

/** A count in full. */
export const exact = (value) => (known(value) ? Math.round(value).toLocaleString("en") : NOTHING);

export function bytes(value) {
  return known(value) ? scaled(value, [" B", " kB", " MB", " GB", " TB", " PB"]) : NOTHING;
}

export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : NOTHING);
export const recordRate = (value) => (known(value) ? `${count(value)}/s` : NOTHING);

/** In full: what a short figure of lag leaves out, and what it counts. */
export function lagTitle(row) {
  if (!known(row.lag) && !row.lag_bounds) return "unknown";
  const number = known(row.lag) ? exact(row.lag) : row.lag_bounds.text;
  const when = known(row.lag_ms) ? `, at ${time(row.lag_ms)}` : "";
  return `${number} source offsets not copied${when}, including compacted records and transaction markers`;
}

/** A lag, short: "1.28 M"; "≥1.28 M" and "unknown" if some or all of the partitions are unknown. */
export function lagCount(row) {
  if (known(row.lag) || !row.lag_bounds) return count(row.lag);
  return row.lag_bounds.least ? `≥${count(row.lag_bounds.least)}` : "unknown";
}

/** The known part of a lag, to sort and to add up; null where nothing is known. */
export const leastLag = (row) => row.lag ?? row.lag_bounds?.least ?? null;

/** The age of the oldest record that waits; null where none does. */
export const behind = (row) => (row.lag && known(row.behind_ms) ? span(row.behind_ms) : null);

/** The same in a table, or why it is unknown although something waits. `flow`: whose `row` it is. */
export function behindFigure(row, flow) {
  if (behind(row) || !leastLag(row)) return behind(row) ?? NOTHING;
  const [word, why] = behindUnknown(row, flow);
  return h("span", { class: "muted", title: why }, word);
}

function behindUnknown(row, flow) {
  if (row.lag_bounds?.unknown) return ["unknown", "A partition could not be queried, and may hold an older record."];
  if (row.lag_ms > row.reported_ms)
    return ["unknown", "The source returned no timestamp: no waiting record has one, or its broker did not respond."];
  if (flow.lag_fault) return ["unknown", flow.lag_fault];
  return ["not queried since", "The lag is from the last run, without an age; the source was not queried since."];
}

/**
 * The result of verifying a flow's copies: a word, its tone ("" for none) and what it means. It is good only where
 * everything that was copied is proved; `verified_ms` is when the first of the copies was compared.
 */
export function verifiedFigure(flow) {
  const { proved_partitions: proved = 0, unproved_partitions: unproved = 0, different_partitions: different = 0 } = flow;
  const never = flow.uncompared_partitions ?? 0;
  const told =
    `${plural(proved, "partition")} proved, ${count(unproved)} in part or unreadable, ` +
    `${count(different)} different, ${count(never)} never compared`;
  if (different) return { word: `${count(different)} different`, tone: "fault-text", title: told };
  if (unproved || (never && proved)) return { word: proved ? "in part" : "not proved", tone: "", title: told };
  if (proved) return { word: "proved", tone: "good-text", title: told };
  return { word: NOTHING, tone: "", title: "No copy was compared: srm-control verify" };
}

const VERDICTS = {
  proved: ["proved", "good-text"],
  partly: ["in part", ""],
  different: ["different", "fault-text"],
  failed: ["unreadable", ""],
  nothing: ["nothing to compare", ""],
};

/** The same of one partition, as the API has it (`row.verified`). */
export function partitionVerified(row) {
  const found = row.verified;
  if (!found) return { word: NOTHING, tone: "", title: "Never compared: srm-control verify" };
  const [word, tone] = VERDICTS[found.verdict] ?? [found.verdict, ""];
  const how = found.against === "source" ? "the source" : "the offset map";
  const part = found.sample < 1 ? `a sample of ${+(found.sample * 100).toPrecision(3)} %` : found.whole ? "all" : "a part";
  const upTo = known(found.proved_to) ? `, proved up to source offset ${exact(found.proved_to)}` : "";
  const compared = `${plural(found.records, "record")} proved${upTo}; ${part} compared with ${how}`;
  return { word, tone, title: found.difference?.sentence ?? found.fault ?? compared };
}

/** A duration in milliseconds: 842 ms, 1.2 s, 3 min, 5 h, 2 d. */
export function duration(ms) {
  if (!known(ms)) return NOTHING;
  const size = Math.abs(ms);
  if (size < 9.95) return `${ms.toFixed(1).replace(/\.0$/, "")} ms`;
  if (size < 999.5) return `${Math.round(ms)} ms`;
  if (size < 9950) return `${(ms / 1000).toFixed(1)} s`;
  return span(ms);
}

/** A duration without fractions, for ages. */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} d`;
}

/** Date and time of day, in the reader's zone. */
export function time(ms) {
  if (!known(ms)) return NOTHING;
  const at = new Date(ms);
  const pad = (part) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** "3 min ago", which keeps counting; with another `prefix` and `suffix`, "for 3 min". */
export function age(ms, { prefix = "", suffix = " ago", ...props } = {}) {
  if (!known(ms)) return h("span", props, NOTHING);
  const attributes = { "data-at": ms, "data-prefix": prefix, "data-suffix": suffix, title: time(ms), ...props };
  return h("time", { datetime: new Date(ms).toISOString(), ...attributes }, prefix + span(serverNow() - ms) + suffix);
}

/** A flow's lag in offsets and in time, and how old the figure is. */
export function lagFigure(flow) {
  const late = behind(flow);
  return h(
    "span",
    { class: "lag-figure", "data-testid": `lag-${flow.flow}` },
    h("b", { title: lagTitle(flow) }, lagCount(flow)),
    late ? h("small", { class: "muted", title: "age of the oldest record not copied" }, `${late} behind`) : null,
    lagAge(flow),
  );
}

/** When the lag was measured, if not for the last report. */
function lagAge(flow) {
  if (!known(flow.lag_ms) || flow.lag_ms === flow.reported_ms) return null;
  const fault = flow.lag_fault;
  return age(flow.lag_ms, { class: fault ? "fault-text" : "muted", ...(fault ? { title: fault } : {}) });
}

/** Keep every age on the page counting. */
export function tick() {
  for (const one of document.querySelectorAll("time[data-at]")) {
    const text = one.dataset.prefix + span(serverNow() - Number(one.dataset.at)) + one.dataset.suffix;
    if (one.textContent !== text) one.textContent = text;
  }
}

/** Begins with a capital letter, unless it begins with `name`, which stays as it is written. */
export const sentence = (text, name) => (text.startsWith(name) ? text : text.charAt(0).toUpperCase() + text.slice(1));

/** "1 topic", "2 topics"; the figure is short, in full where it matters. */
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** All that is known of a Stat, in words. */
export function spread(stat, format) {
  if (!stat?.count) return "no data in the selected time range";
  const [least, average, most] = [stat.min, stat.avg, stat.max].map(format);
  const parts = [`min ${least}, average ${average}, max ${most}`, percentiles(stat, format)].filter(Boolean).join(", ");
  return `${parts}; ${format(stat.latest)} at ${time(stat.latest_ms)}`;
}

/** What 50, 95 and 99 of 100 records did not exceed; null where that is not known. */
export function percentiles(stat, format, between = ", ") {
  if (!known(stat?.p50)) return null;
  return ["p50", "p95", "p99"].map((name) => `${name} ${format(stat[name])}`).join(between);
}

export const known = (value) => typeof value === "number" && Number.isFinite(value);

function scaled(value, units) {
  let power = 0;
  let rest = value;
  // Limits are where rounding reaches the next figure: 999,999 is "1.00 M", not "1000 k".
  while (Math.abs(rest) >= 999.5 && power < units.length - 1) {
    rest /= 1000;
    power += 1;
  }
  const size = Math.abs(rest);
  if (!power) return `${size < 9.95 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value)}${units[0]}`;
  return `${rest.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0)}${units[power]}`;
}
