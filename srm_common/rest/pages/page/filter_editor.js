// Editing what a flow copies: the lists in effect, a preview of what an edit would start and stop, and only then
// the edit itself.

import { flowPath, get, post, put } from "./api.js";
import { footer, openDialog } from "./dialog.js";
import { h, icon } from "./dom.js";
import { count, exact, plural } from "./format.js";
import { whyNot } from "./session.js";
import { button, faults, loading, toast } from "./widgets.js";

const LISTS = {
  topics: ["Topics", "Names or regular expressions of topics to copy, one per line."],
  "topics.exclude": ["Topics, excluded", "Never copied, even if the list above matches."],
  groups: ["Consumer groups", "Groups whose offsets are translated."],
  "groups.exclude": ["Consumer groups, excluded", "Never translated, even if the list above matches."],
  "reverse.checkpointed.topics": [
    "Reverse checkpoints",
    "Topics whose groups may fail back: their offsets are translated in the other direction.",
  ],
  "reverse.checkpointed.topics.exclude": ["Reverse checkpoints, excluded", "Never translated back, even if the list above matches."],
};
const SHOWN = 200;

/** Open the editor; `done` is called after an edit was saved. */
export function editFilters(flow, done) {
  const path = `${flowPath(flow.source, flow.target)}/filters`;
  const state = {
    filters: null,
    texts: {},
    note: "",
    preview: null,
    previewed: null,
    errors: [],
    busy: "loading the lists",
  };
  const dialog = openDialog({
    title: `Filters of ${flow.source} → ${flow.target}`,
    testid: "filter-editor",
    wide: true,
    draw,
  });

  async function attempt(what, work) {
    Object.assign(state, { busy: what, errors: [] });
    dialog.redraw();
    try {
      await work();
    } catch (error) {
      if (!error.errors) throw error;
      state.errors = error.errors;
    }
    state.busy = "";
    dialog.redraw();
  }

  const read = () =>
    attempt("loading the lists", async () => {
      state.filters = await get(path);
      state.texts = Object.fromEntries(
        Object.entries(state.filters.lists).map(([key, list]) => [key, list.join("\n")]),
      );
      Object.assign(state, { preview: null, previewed: null, errors: state.filters.errors });
      for (const area of dialog.box.querySelectorAll("textarea")) area.value = state.texts[area.name] ?? "";
    });

  const entries = (key) =>
    state.texts[key]
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  const same = (one, other) => one.length === other.length && one.every((entry, index) => entry === other[index]);

  /** Only the lists that differ; those that equal the file's again are reset to it. */
  function edit() {
    const { lists, in_file: file, edited } = state.filters;
    const changed = Object.keys(lists).filter((key) => !same(entries(key), lists[key]));
    const reset = changed.filter((key) => edited.includes(key) && same(entries(key), file[key] ?? []));
    const kept = changed.filter((key) => !reset.includes(key));
    return {
      lists: Object.fromEntries(kept.map((key) => [key, entries(key)])),
      reset,
      note: state.note,
      revision: state.filters.revision,
    };
  }

  const changes = () => {
    const { lists, reset } = edit();
    return JSON.stringify([lists, reset]);
  };
  const untouched = () => changes() === "[{},[]]";

  const preview = () =>
    attempt("querying the source", async () => {
      const asked = changes();
      // The preview of an earlier edit must not stay if this one is refused.
      state.preview = null;
      state.preview = await post(`${path}/preview`, edit());
      state.previewed = asked;
    }).then(() => dialog.box.querySelector(".outcome, .notice")?.scrollIntoView({ block: "nearest" }));

  const save = () =>
    attempt("saving", async () => {
      const answer = await put(path, edit());
      toast(answer.done);
      dialog.close();
      done();
    });

  function draw() {
    if (!state.filters)
      return [
        faults(state.errors, "filter-faults"),
        state.busy ? loading("the lists") : null,
        footer(button("Close", { testid: "filter-cancel", onclick: () => dialog.close() })),
      ];
    const { editable, origin, history } = state.filters;
    const readOnly = editable ? null : (whyNot("edit", flow) ?? "These lists cannot be edited here");
    const busy = state.busy ? "Please wait" : null;
    const fresh = state.preview && state.previewed === changes();
    const whyNotSave =
      readOnly ?? busy ?? (untouched() ? "Nothing is changed yet" : fresh ? null : "Preview the edit first");
    return [
      h(
        "p",
        { class: "muted break" },
        "In effect now: from ",
        h("b", null, origin),
        ". An edit takes effect in the flow's next run; existing copies stay.",
        readOnly ? h("b", null, ` ${readOnly}.`) : null,
      ),
      h(
        "div",
        { class: "lists" },
        Object.keys(state.filters.lists).map((key) => listField(key, readOnly)),
      ),
      h(
        "label",
        { class: "field" },
        h("span", null, "Reason (for the history)"),
        h("input", {
          value: state.note,
          maxlength: 1000,
          "data-testid": "filter-note",
          readonly: Boolean(readOnly),
          oninput: (event) => (state.note = event.target.value),
        }),
      ),
      state.preview ? outcome(state.preview, fresh) : null,
      past(history),
      faults(state.errors, "filter-faults"),
      footer(
        h("span", { class: "muted grow" }, state.busy ? `${state.busy}…` : ""),
        state.errors.some((one) => one.code === "edit_conflict")
          ? button("Reload the lists", { testid: "filter-reload", onclick: read })
          : null,
        button("Cancel", { testid: "filter-cancel", onclick: () => dialog.close() }),
        button("Preview", {
          picture: "search",
          kind: fresh ? "" : "primary",
          testid: "filter-preview",
          why: readOnly ?? busy ?? (untouched() ? "Nothing is changed yet" : null),
          onclick: preview,
        }),
        button("Save", {
          picture: "check",
          kind: fresh ? "primary" : "",
          testid: "filter-save",
          why: whyNotSave,
          onclick: save,
        }),
      ),
    ];
  }

  function listField(key, readOnly) {
    const [name, help] = LISTS[key] ?? [key, ""];
    const file = state.filters.in_file[key] ?? [];
    const now = entries(key);
    const own = !same(now, file);
    const area = h("textarea", {
      rows: Math.min(8, Math.max(3, now.length + 1)),
      name: key,
      spellcheck: "false",
      autocapitalize: "off",
      "data-testid": `filter-${key}`,
      "aria-describedby": `help-${key}`,
      readonly: Boolean(readOnly),
      oninput: (event) => {
        state.texts[key] = event.target.value;
        dialog.redraw();
      },
    });
    area.value = state.texts[key];
    // Rows only at first: a field that grows under the cursor is a nuisance.
    area.adopt = (old) => {
      old.oninput = area.oninput;
      if (old !== document.activeElement && old.value !== area.value) old.value = area.value;
    };
    return h(
      "label",
      { class: "field", key },
      h(
        "span",
        { class: "line" },
        h("b", null, name),
        h("code", { class: "muted" }, key),
        now.length > 1 ? h("span", { class: "muted" }, exact(now.length)) : null,
      ),
      area,
      h("small", { class: "muted", id: `help-${key}` }, help),
      own && !readOnly
        ? button(`As in the file: ${file.length ? shortened(file) : "empty"}`, {
            kind: "quiet small reset",
            testid: `filter-reset-${key}`,
            onclick: (event) => {
              event.preventDefault();
              state.texts[key] = file.join("\n");
              dialog.redraw();
            },
          })
        : null,
    );
  }

  read();
}

const shortened = (list) => (list.length > 3 ? `${list.slice(0, 3).join(", ")}, …` : list.join(", "));

/** What the edit would start and stop. */
function outcome(preview, fresh) {
  const { starts, stops, groups_start: groupsStart = [], groups_stop: groupsStop = [] } = preview;
  const nothing = !starts.length && !stops.length && !groupsStart.length && !groupsStop.length;
  const topic = (one) => [h("b", { class: "break" }, one.topic), h("span", { class: "muted break" }, one.reason)];
  const group = (one) => h("b", { class: "break" }, one);
  return h(
    "section",
    {
      class: `outcome ${fresh ? "" : "old"}`,
      "data-testid": "filter-outcome",
      "aria-label": "Preview",
      "aria-live": "polite",
    },
    h(
      "h2",
      null,
      fresh ? "What this edit would change" : "The lists have changed since this preview",
      h("span", { class: "muted" }, ` ${plural(preview.unchanged, "topic")} unchanged`),
    ),
    nothing ? h("p", { class: "muted" }, "No existing topic or group is affected.") : null,
    h(
      "div",
      { class: "columns" },
      changed("Copied from now on", starts, "good", "starts", topic),
      changed("No longer copied", stops, "bad", "stops", topic),
      changed("Groups translated from now on", groupsStart, "good", "groups-start", group),
      changed("Groups no longer translated", groupsStop, "bad", "groups-stop", group),
    ),
    preview.warnings.map((one) => h("p", { class: "fault warn break" }, icon("warning"), one)),
    faults(preview.errors, "preview-faults"),
  );
}

function changed(title, list, tone, name, cell) {
  if (!list.length) return null;
  const more = list.length > SHOWN ? h("li", { class: "muted" }, `and ${count(list.length - SHOWN)} more`) : null;
  return h(
    "div",
    { class: `changed ${tone}`, key: name, "data-testid": `preview-${name}` },
    h("h3", null, icon(tone === "good" ? "check" : "close"), `${title}: ${exact(list.length)}`),
    h(
      "ul",
      null,
      list.slice(0, SHOWN).map((one) => h("li", null, cell(one))),
      more,
    ),
  );
}

function past(history) {
  if (!history.length) return null;
  const line = (one) =>
    h(
      "li",
      { class: "break" },
      h("span", { class: "number" }, String(one.when ?? "")),
      " ",
      h("b", null, String(one.who ?? "unknown")),
      one.note ? `: ${one.note}` : "",
      one.origin ? h("span", { class: "muted" }, ` (${one.origin})`) : "",
    );
  return h(
    "details",
    { class: "past", "data-testid": "filter-history" },
    h("summary", null, `Earlier edits: ${history.length}`),
    h("ul", null, history.map(line)),
  );
}
