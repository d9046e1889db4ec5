// Consumer groups of a flow: which of their offsets are translated, and where each would resume at the target.

import { flowPath, get, post } from "./api.js";
import { confirm } from "./dialog.js";
import { h, icon } from "./dom.js";
import { age, duration, exact, plural, span } from "./format.js";
import { route, setQuery } from "./route.js";
import { whyNot } from "./session.js";
import { table } from "./table.js";
import { listQuery, searchedList } from "./tabs_data.js";
import { button, faults, loading, partTaken, taken, toast } from "./widgets.js";

export function groupsTab(redraw) {
  // The offsets of the open group are queried from both clusters, so only when it is opened or refreshed.
  const open = { key: null, answer: null, errors: [] };

  async function ask(flow, group) {
    const key = `${flow.flow}\n${group}`;
    Object.assign(open, { key, answer: null, errors: [] });
    redraw();
    try {
      const answer = await get(`${flowPath(flow.source, flow.target)}/group-offsets`, { group });
      if (open.key === key) Object.assign(open, { answer, errors: answer.errors });
    } catch (error) {
      if (!error.errors) throw error;
      if (open.key === key) open.errors = error.errors;
    }
    redraw();
  }

  function below(row, flow) {
    if (route().query.get("group") !== row.group)
      return row.reason ? h("p", { class: "fault break" }, icon("warning"), row.reason) : null;
    const { answer, errors } = open;
    return h(
      "div",
      { class: "told", "data-testid": "group-offsets" },
      row.reason ? h("p", { class: "fault break" }, icon("warning"), row.reason) : null,
      faults(errors, "group-faults"),
      !answer && !errors.length ? loading("offsets from both clusters") : null,
      answer ? offsets(answer) : null,
      h(
        "div",
        { class: "line" },
        button("Refresh from the clusters", {
          picture: "refresh",
          testid: "group-ask",
          onclick: () => ask(flow, row.group),
        }),
        button("Set offsets at the target…", {
          picture: "edit",
          testid: "group-apply",
          why: whyNot("edit", flow),
          onclick: () => apply(flow, row.group, () => ask(flow, row.group)),
        }),
        answer ? taken(answer.now_ms) : null,
      ),
    );
  }

  return {
    id: "groups",
    label: "Groups",
    number: (flow) => flow.groups,
    load(flow, signal) {
      const group = route().query.get("group");
      if (group && open.key !== `${flow.flow}\n${group}`) ask(flow, group);
      const { search, offset, limit } = listQuery();
      return get(`${flowPath(flow.source, flow.target)}/groups`, { search, offset, limit }, signal);
    },
    draw(answer, flow) {
      const shown = route().query.get("group");
      const columns = [
        { label: "Group", cell: (row) => opener(row, shown) },
        { label: "Translated", cell: translated },
        { label: "Offsets at the target", cell: (row) => (row.synced ? "synced by the flow" : "not synced") },
        { label: "Checkpoint latency", right: true, cell: (row) => duration(row.checkpoint_latency_ms) },
        { label: "Last checkpoint", cell: (row) => age(row.checkpoint_ms, { class: "number" }) },
        { label: "Reported", cell: (row) => partTaken(row, flow) },
      ];
      const none = {
        matches: null,
        yet: "Groups of the source appear once they have committed offsets on topics that the flow copies.",
      };
      return searchedList("group", answer, answer.groups, none, {
        label: "Groups",
        columns,
        key: (row) => row.group,
        below: (row) => below(row, flow),
        tone: (row) => (row.translated < row.positions ? "warn" : ""),
      });
    },
  };
}

function opener(row, shown) {
  const isOpen = row.group === shown;
  const props = {
    type: "button",
    class: "disclosure row-link",
    "aria-expanded": String(isOpen),
    "data-testid": `open-group-${row.group}`,
  };
  return h(
    "button",
    { ...props, onclick: () => setQuery({ group: isOpen ? null : row.group }) },
    icon("down"),
    h("span", { class: "break" }, row.group),
  );
}

function translated(row) {
  const all = row.translated >= row.positions;
  return h(
    "span",
    { class: `chip ${all ? "good" : "warn"}` },
    icon(all ? "check" : "warning"),
    all ? `all ${exact(row.positions)}` : `${exact(row.translated)} of ${exact(row.positions)}`,
  );
}

function offsets(answer) {
  const behind = (row) => row.translated !== null && row.applied !== row.translated;
  const columns = [
    { label: "Partition", cell: (row) => h("span", { class: "break" }, row.topic, h("b", null, `-${row.partition}`)) },
    { label: "Offset at the source", right: true, cell: (row) => exact(row.source_offset) },
    { label: "Translated", right: true, cell: (row) => exact(row.translated) },
    {
      label: "At the target",
      right: true,
      cell: (row) => h("span", { class: behind(row) ? "late-text" : "" }, exact(row.applied)),
    },
    { label: "Age", right: true, cell: (row) => (row.age_ms === null ? "–" : span(row.age_ms)) },
    { label: "Remark", cell: (row) => h("span", { class: "break muted" }, row.reason ?? "") },
  ];
  if (!answer.offsets.length)
    return h("p", { class: "muted" }, "The group has no committed offsets on topics that the flow copies.");
  return table({
    label: `Offsets of ${answer.group}`,
    columns,
    rows: answer.offsets,
    key: (row) => `${row.topic}-${row.partition}`,
    testid: "offset",
  });
}

/** Commit a group's translated offsets at the target, after showing what would change. */
async function apply(flow, group, done) {
  const path = `${flowPath(flow.source, flow.target)}/offsets`;
  let trial;
  try {
    trial = await post(path, { groups: [group], dry_run: true });
  } catch (error) {
    if (!error.errors) throw error;
    toast(error.message, { tone: "bad" });
    return;
  }
  const columns = [
    { label: "Partition", cell: (row) => h("span", { class: "break" }, `${row.topic}-${row.partition}`) },
    { label: "Now", right: true, cell: (row) => exact(row.before) },
    { label: "Then", right: true, cell: (row) => exact(row.offset) },
    { label: "Remark", cell: (row) => h("span", { class: "muted break" }, row.problem ?? row.effect ?? "") },
  ];
  const answer = await confirm({
    title: `Set offsets of ${group} on ${flow.target}`,
    sentences: [
      `Consumers of ${group} on ${flow.target} will resume at these offsets. The group must have no members there.`,
      table({
        label: "Changes",
        columns,
        rows: trial.applied,
        key: (row) => `${row.topic}-${row.partition}`,
        testid: "apply",
      }),
      faults(trial.errors, "apply-problems"),
    ],
    label: "Set offsets",
    kind: "danger",
    testid: "confirm-offsets",
    act: () => post(path, { groups: [group], dry_run: false }),
  });
  if (!answer) return;
  toast(`Set ${plural(answer.applied.length, "offset")} of ${group} on ${flow.target}.`);
  done();
}
