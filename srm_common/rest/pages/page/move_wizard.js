// Moving consumer groups to the other cluster: first which groups and how, then a dry run that shows where each would
// resume, and, only after the target's name was typed, the move itself, followed step by step.

import { flowPath, get, post } from "./api.js";
import { footer, openDialog } from "./dialog.js";
import { h, icon } from "./dom.js";
import { exact, plural, span } from "./format.js";
import { table } from "./table.js";
import { airflowLink, button, faults } from "./widgets.js";

const KINDS = {
  failover: [
    "Failover",
    (flow) => `Groups resume at ${flow.target} where they stopped at ${flow.source}; the flow stays paused.`,
    ["disaster", "controlled", "continuous"],
  ],
  failback: [
    "Failback",
    (flow) => `Groups that were moved return from ${flow.target} to ${flow.source}, and the flows copy again.`,
    ["controlled", "continuous"],
  ],
  "switch-direction": [
    "Switch direction",
    (flow) => `Everything moves to ${flow.target}, and ${flow.target} → ${flow.source} takes over: the end of a migration.`,
    ["controlled"],
  ],
};
const MODES = {
  disaster: [
    "Disaster",
    "The source may be gone. It is not required; if it still responds, positions are more recent.",
  ],
  controlled: [
    "Controlled",
    "Producers and consumers at the source are stopped: everything is copied first, nothing is read twice.",
  ],
  continuous: ["Continuous", "Only the groups' consumers are stopped at the source; producers and the flow keep running."],
};
const MARKS = {
  done: ["good", "check"],
  success: ["good", "check"],
  running: ["info", "refresh"],
  waiting: ["warn", "clock"],
  failed: ["bad", "cross"],
  "not reached": ["calm", "idle"],
  skipped: ["calm", "idle"],
};
const ENDED = new Set(["success", "failed"]);
const LOOK_MS = 2000;
const STAGES = ["choose", "try", "confirm", "move"];
const TITLES = { choose: "What", try: "Dry run", confirm: "Confirm", move: "Move" };

/** Open the wizard; `done` is called when it is closed after a move has begun. */
export function moveGroups(flow, done) {
  const state = {
    stage: "choose",
    kind: "failover",
    mode: "disaster",
    groups: "",
    typed: "",
    run: null,
    progress: null,
    errors: [],
    busy: false,
    begun: false,
  };
  let timer;
  const dialog = openDialog({
    title: `Move groups of ${flow.source} → ${flow.target}`,
    testid: "move-wizard",
    wide: true,
    draw,
  });
  dialog.closed.then(() => {
    clearTimeout(timer);
    if (state.begun) done();
  });
  const to = () => (state.kind === "failback" ? flow.source : flow.target);

  function set(changes) {
    Object.assign(state, changes);
    dialog.redraw();
  }

  async function begin(dryRun) {
    clearTimeout(timer);
    set({ stage: dryRun ? "try" : "move", run: null, progress: null, errors: [], busy: true });
    const groups = state.groups
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
    try {
      const run = await post(`${flowPath(flow.source, flow.target)}/moves`, {
        kind: state.kind,
        mode: state.mode,
        groups,
        dry_run: dryRun,
      });
      set({ run, busy: false, begun: state.begun || !dryRun });
      follow(run.run_id, state.kind);
    } catch (error) {
      if (!error.errors) throw error;
      set({ errors: error.errors, busy: false });
    }
  }

  async function follow(runId, kind) {
    try {
      const progress = await get(`moves/${kind}/${encodeURIComponent(runId)}`);
      if (state.run?.run_id !== runId) return;
      set({ progress, errors: progress.errors });
      if (ENDED.has(progress.state)) return;
    } catch (error) {
      if (!error.errors) throw error;
      // The move continues without this page; keep polling.
      if (state.run?.run_id === runId) set({ errors: error.errors });
    }
    if (dialog.box.isConnected) timer = setTimeout(() => follow(runId, kind), LOOK_MS);
  }

  function draw() {
    const content = { choose, try: tried, confirm: confirmed, move: moved }[state.stage]();
    const at = STAGES.indexOf(state.stage);
    const stages = STAGES.map((stage, index) =>
      h("li", { "aria-current": index === at ? "step" : null, class: index < at ? "past" : "" }, TITLES[stage]),
    );
    return [
      h("ol", { class: "stages", key: "stages" }, stages),
      h("div", { class: "stage", key: state.stage }, content),
    ];
  }

  function choose() {
    const modes = KINDS[state.kind][2];
    return [
      options(
        "What",
        "kind",
        Object.entries(KINDS).map(([value, [name, help]]) => [value, name, help(flow)]),
        state.kind,
        (kind) => set({ kind, mode: KINDS[kind][2][0] }),
      ),
      options(
        "How",
        "mode",
        modes.map((value) => [value, ...MODES[value]]),
        state.mode,
        (mode) => set({ mode }),
      ),
      h(
        "label",
        { class: "field" },
        h("b", null, "Consumer groups"),
        h("textarea", {
          rows: 3,
          value: state.groups,
          spellcheck: "false",
          placeholder: "One per line; empty: every group that the flow translates",
          "data-testid": "move-groups",
          oninput: (event) => (state.groups = event.target.value),
        }),
      ),
      footer(
        button("Cancel", { testid: "move-cancel", onclick: () => dialog.close() }),
        button("Dry run", { kind: "primary", picture: "play", testid: "move-dry-run", onclick: () => begin(true) }),
      ),
    ];
  }

  function tried() {
    const { progress } = state;
    const ended = progress && ENDED.has(progress.state);
    const why =
      ended && progress.state === "success"
        ? null
        : ended
          ? "The dry run failed: fix the error first"
          : "The dry run has not finished yet";
    return [
      h(
        "p",
        { class: "muted" },
        "A dry run changes nothing. It checks both clusters and shows where each group would resume.",
      ),
      advance(),
      ended ? positions(progress) : null,
      faults(state.errors, "move-faults"),
      footer(
        button("Back", { picture: "back", testid: "move-back", onclick: () => set({ stage: "choose", errors: [] }) }),
        ended || state.errors.length
          ? button("Dry run again", { picture: "refresh", testid: "move-again", onclick: () => begin(true) })
          : null,
        // In a disaster the dry run may be unable to end; then a person decides.
        button("Continue", {
          kind: "primary",
          picture: "arrow",
          testid: "move-continue",
          why,
          onclick: () => set({ stage: "confirm", typed: "", errors: [] }),
        }),
      ),
    ];
  }

  function confirmed() {
    const groups = new Set((state.progress?.positions ?? []).map((one) => one.group));
    const right = state.typed.trim() === to();
    return [
      h(
        "div",
        { class: "notice bad" },
        icon("warning"),
        h(
          "div",
          null,
          h("p", null, h("b", null, `${plural(groups.size, "group")} will resume at ${to()}.`)),
          h("p", null, KINDS[state.kind][1](flow)),
          h("p", null, MODES[state.mode][1]),
        ),
      ),
      h(
        "label",
        { class: "field" },
        h("span", null, "Type ", h("b", null, to()), " to confirm"),
        h("input", {
          value: state.typed,
          autocomplete: "off",
          spellcheck: "false",
          "data-testid": "move-typed",
          oninput: (event) => set({ typed: event.target.value }),
        }),
      ),
      footer(
        button("Back", { picture: "back", testid: "move-back", onclick: () => set({ stage: "try" }) }),
        button(`${KINDS[state.kind][0]} to ${to()}`, {
          kind: "danger",
          picture: "move",
          testid: "move-start",
          why: right ? null : `Type ${to()} first`,
          onclick: () => begin(false),
        }),
      ),
    ];
  }

  function moved() {
    const { progress } = state;
    const ended = progress && ENDED.has(progress.state);
    const none = (progress?.positions ?? []).filter((one) => one.applied === null).length;
    const outcome = {
      success: none
        ? [
            "warn",
            "warning",
            `Done, but ${plural(none, "position")} ${none === 1 ? "has" : "have"} no offset on ${to()}: auto.offset.reset applies there.`,
          ]
        : ["good", "check", `Done: the groups resume at ${to()}. Start their consumers there.`],
      failed: [
        "bad",
        "cross",
        "A step failed. Fix the error it names, then clear its task instance in Airflow: every step may be repeated.",
      ],
      waiting: ["warn", "clock", "A step waits for approval: respond under Required Actions of the run in Airflow."],
    }[progress?.state];
    return [
      outcome
        ? h("div", { class: `notice ${outcome[0]}`, role: "status", "data-testid": "move-result" }, icon(outcome[1]), outcome[2])
        : null,
      advance(),
      ended
        ? positions(progress)
        : h("p", { class: "muted" }, "Closing this dialog does not stop the move."),
      faults(state.errors, "move-faults"),
      footer(
        button(ended ? "Close" : "Close and continue in the background", {
          kind: ended ? "primary" : "",
          testid: "move-close",
          onclick: () => dialog.close(),
        }),
      ),
    ];
  }

  function advance() {
    const { run, progress, errors } = state;
    if (!run)
      return errors.length ? null : h("p", { class: "muted line" }, icon("refresh", { class: "spin" }), "Starting…");
    return h(
      "section",
      { class: "advance", "aria-label": "Steps", "aria-live": "polite" },
      h(
        "div",
        { class: "line" },
        h("b", { "data-testid": "move-state" }, progress?.state ?? "queued"),
        airflowLink(run.url, "Open the run in Airflow", "move-run"),
      ),
      h("ol", { "data-testid": "move-steps" }, (progress?.steps ?? []).filter(saysSomething).map(stepLine)),
    );
  }

  return dialog;
}

/** Steps that are skipped in this mode, or in a dry run, have nothing to say. */
const saysSomething = (step) => step.state !== "skipped" || step.sentences.length > 0;

function stepLine(step) {
  const [tone, picture] = MARKS[step.state] ?? ["calm", "clock"];
  const name = step.step.replaceAll("_", " ");
  return h(
    "li",
    { key: step.step, "data-testid": `step-${step.step}`, "data-state": step.state },
    h("span", { class: `chip ${tone}` }, icon(picture, { class: step.state === "running" ? "spin" : "" }), step.state),
    h("b", null, name),
    h(
      "div",
      { class: "sentences muted" },
      step.sentences.map((one) => h("p", { class: "break" }, one)),
    ),
  );
}

/** Where each group resumes or would resume, by partition; null where there are no positions. */
export function positions(progress) {
  const rows = progress.positions;
  if (!rows.length) return null;
  const none = rows.filter((row) => row.applied === null).length;
  const columns = [
    { label: "Group", cell: (row) => h("div", { class: "whole" }, row.group) },
    { label: "Resumes in", cell: (row) => h("div", { class: "whole" }, row.topic, h("b", null, `-${row.partition}`)) },
    {
      label: "Offset there",
      right: true,
      cell: (row) => (row.applied === null ? h("b", { class: "fault-text" }, "none") : exact(row.applied)),
    },
    { label: "Was", right: true, cell: (row) => exact(row.before) },
    { label: "Committed at the source", right: true, cell: (row) => exact(row.upstream) },
    { label: "As of", right: true, cell: (row) => span(row.age_ms ?? 0) },
    { label: "Read again", right: true, cell: (row) => readAgain(row.read_again) },
  ];
  return h(
    "section",
    { class: "positions", "data-testid": "move-positions" },
    h(
      "h2",
      null,
      `${plural(new Set(rows.map((row) => row.group)).size, "group")}, ${plural(rows.length, "position")}`,
      h(
        "span",
        { class: "muted" },
        ` records read twice: ${readAgain(progress.read_again)}`,
        none ? `; ${plural(none, "position")} without an offset` : "",
      ),
    ),
    table({
      label: "Positions",
      columns,
      rows,
      key: (row) => `${row.group} ${row.from_topic}-${row.partition}`,
      // A sentence needs the whole width.
      below: (row) => (row.reason ? h("p", { class: "muted break" }, row.reason) : null),
      tone: (row) => (row.applied === null ? "bad" : row.reason ? "warn" : ""),
      testid: "position",
    }),
  );
}

/** Whether it is a bound, exact or unknown is part of the number's text. */
const readAgain = (amount) => amount?.text ?? "unknown";

function options(label, name, list, chosen, choose) {
  return h(
    "fieldset",
    { class: "options" },
    h("legend", null, label),
    list.map(([value, title, help]) =>
      h(
        "label",
        { key: value },
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === chosen,
          "data-testid": `move-${name}-${value}`,
          onchange: () => choose(value),
        }),
        h("span", null, h("b", null, title), h("small", { class: "muted" }, help)),
      ),
    ),
  );
}
