// What can be done with a flow from here, each behind a confirmation.

import { flowPath, post } from "./api.js";
import { confirm } from "./dialog.js";
import { editFilters } from "./filter_editor.js";
import { moveGroups } from "./move_wizard.js";
import { whyNot } from "./session.js";
import { airflowLink, button, toast } from "./widgets.js";

const STEERING = {
  pause: {
    label: "Pause",
    picture: "pause",
    right: "trigger",
    sentences: (name) => [
      `${name} starts no more runs until it is resumed. A task that is running finishes first; nothing is lost.`,
      "While it is paused the lag grows. Records that the source deletes in the meantime can no longer be copied.",
    ],
  },
  resume: {
    label: "Resume",
    picture: "resume",
    right: "trigger",
    sentences: (name) => [`${name} continues where it stopped, with its next scheduled run.`],
  },
  runs: {
    label: "Run now",
    picture: "play",
    right: "trigger",
    sentences: (name, flow) => [
      flow.paused
        ? `${name} is paused: the run waits until it is resumed.`
        : `Start a run of ${name} now. If a run is active, the new one waits until it has finished.`,
    ],
  },
};

/** Confirm, act, report; then call `done`, so that the page is refreshed. */
async function steer(kind, flow, done) {
  const { label, sentences } = STEERING[kind];
  const name = `${flow.source} → ${flow.target}`;
  const answer = await confirm({
    title: `${label}: ${name}`,
    sentences: sentences(name, flow),
    label,
    testid: `confirm-${kind}`,
    act: () => post(`${flowPath(flow.source, flow.target)}/${kind}`),
  });
  if (!answer) return;
  toast(answer.done, { more: airflowLink(answer.url, "Open the run", "toast-run") });
  done();
}

/** A button for one of pause, resume, runs. `short`: the picture only. */
export function steerButton(
  kind,
  flow,
  done,
  { short = false, primary = false, testid = `${kind}-${flow.flow}` } = {},
) {
  const { label, picture, right } = STEERING[kind];
  return button(short ? "" : label, {
    picture,
    kind: short ? "quiet" : primary ? "primary" : "",
    testid,
    title: label,
    "aria-label": `${label} ${flow.flow}`,
    key: kind,
    why: whyNot(right, flow),
    onclick: () => steer(kind, flow, done),
  });
}

export function filtersButton(flow, done, { primary = false, testid = `filters-${flow.flow}` } = {}) {
  return button("Edit filters", {
    picture: "edit",
    kind: primary ? "primary" : "",
    testid,
    key: "filters",
    why: flow.service ? whyNot("edit", flow) : null,
    onclick: () => editFilters(flow, done),
  });
}

export function moveButton(flow, done, { primary = false, testid = `failover-${flow.flow}` } = {}) {
  return button("Failover…", {
    picture: "move",
    kind: primary ? "primary" : "",
    testid,
    key: "failover",
    why: whyNot("edit", flow),
    onclick: () => moveGroups(flow, done),
  });
}

/** The button that helps, as a state of health or an alarm names it. */
export function helpButton(action, flow, done) {
  const options = { primary: true, testid: `help-${flow.flow}` };
  const made = {
    resume: () => steerButton("resume", flow, done, options),
    run: () => steerButton("runs", flow, done, options),
    filters: () => filtersButton(flow, done, options),
    failover: () => moveButton(flow, done, options),
  }[action];
  return made ? made() : null;
}
