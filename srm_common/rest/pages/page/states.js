// States of health and severities of alarms: words, pictures and colours. docs/operations.md has an entry for each.

import { h, icon } from "./dom.js";
import { age, leastLag } from "./format.js";

/** Worst first. `tone` names the colours of theme.css; `act`: needs attention; `advise`: nothing is wrong, and
 * something may be to do. */
export const STATES = {
  lost_data: { word: "Lost data", tone: "lost", picture: "drop", act: true },
  failing: { word: "Failing", tone: "bad", picture: "cross", act: true },
  stalled: { word: "Stalled", tone: "warn", picture: "stalled", act: true },
  unknown: { word: "Unknown", tone: "warn", picture: "question", act: true },
  not_run: { word: "Not run yet", tone: "info", picture: "clock", act: false, advise: true },
  catching_up: { word: "Catching up", tone: "info", picture: "forward", act: false },
  running: { word: "Running", tone: "good", picture: "check", act: false },
  heartbeat_only: { word: "Heartbeat only", tone: "calm", picture: "pulse", act: false, advise: true },
  idle: { word: "Idle", tone: "calm", picture: "idle", act: false },
  paused: { word: "Paused", tone: "calm", picture: "pause", act: false },
};

const ORDER = Object.keys(STATES);

export const ALARMS = {
  lag_objective: "Lag objective",
  stalled: "Stalled",
  heartbeat_absent: "No heartbeat",
  lost_data: "Lost data",
  untranslated_groups: "Untranslated groups",
  foreign_writer: "Foreign writer",
  skipped_records: "Skipped records",
  certificate_expiry: "Certificate expiry",
  open_transaction: "Open transaction",
  copies_differ: "Copies differ",
};

/** How a state is shown; one that this page does not know is shown by its name. */
export const stateOf = (name) => STATES[name] ?? { word: name, tone: "warn", picture: "question", act: true };

/** The alarms that say more than the state does. */
export const furtherAlarms = (flow) => flow.alarms.filter((alarm) => alarm.kind !== flow.health.state);

/** Whether a flow's figures are older than they should be. */
export const isLate = (flow) => flow.late || ["stalled", "unknown", "paused"].includes(flow.health.state);

/** Whether a flow needs attention. */
export const needsSomebody = (flow) => stateOf(flow.health.state).act || flow.alarms.length > 0;

/** Order of urgency; of two alike the one further behind comes first. */
export function byUrgency(one, other) {
  return rank(one) - rank(other) || (leastLag(other) ?? -1) - (leastLag(one) ?? -1) || one.flow.localeCompare(other.flow);
}

function rank(flow) {
  const place = ORDER.indexOf(flow.health.state);
  const base = place < 0 ? ORDER.indexOf("unknown") : place;
  // An alarm lifts a flow that copies above the others that do.
  return !stateOf(flow.health.state).act && flow.alarms.length ? ORDER.indexOf("unknown") + 0.5 : base;
}

export function badge(health, props = {}) {
  const { word, tone, picture, advise } = stateOf(health.state);
  // States that need no attention have their advice in the list itself.
  const title = advise && health.help ? `${health.cause}. ${health.help.text}` : health.cause;
  return h("span", { class: `badge ${tone}`, title, "data-state": health.state, ...props }, icon(picture), word);
}

/** Whether the flow could list its source: only then do zero topics and groups mean that there are none. */
export const listed = (flow) => Boolean(flow.reported_ms) && (flow.topics > 0 || flow.lag !== null);

/** "for 41 min" */
export const since = (ms, props = {}) => (ms ? age(ms, { prefix: "for ", suffix: "", ...props }) : null);

export function alarmChip(alarm) {
  const tone = alarm.severity === "critical" ? "bad" : "warn";
  const props = { class: `chip ${tone}`, title: alarm.text, "data-testid": `alarm-${alarm.kind}` };
  return h("span", props, icon("warning"), ALARMS[alarm.kind] ?? alarm.kind);
}
