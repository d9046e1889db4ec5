// What a flow does to records, and what an edit of it would do to the newest ones. Nothing is saved here: transforms are
// settings of the properties file.

import { flowPath, get, post } from "./api.js";
import { h, icon } from "./dom.js";
import { exact, plural } from "./format.js";
import { whyNot } from "./session.js";
import { table } from "./table.js";
import { button, command, empty, faults } from "./widgets.js";

const SAMPLES = [10, 100, 1000];
const RESULTS = {
  unchanged: ["calm", "idle"],
  changed: ["info", "edit"],
  dropped: ["warn", "drop"],
  failed: ["bad", "cross"],
};
const TONES = { "newly failed": "bad", "newly dropped": "warn", "written differently": "info" };
/** How much is shown of a key, value or list of headers; the API cuts, too. */
const SHOWN = 300;
const SHOWN_BYTES = 2048;

/** One setting per line, as in the file, but without the flow's prefix and without escapes. */
const written = (settings) =>
  Object.entries(settings)
    .map(([key, value]) => `${key} = ${value.replaceAll("\n", " ")}`)
    .join("\n");

/** { settings } or { fault } */
function parsed(text) {
  const settings = {};
  const lines = text.split("\n").map((line) => line.trim());
  for (const [index, line] of lines.entries()) {
    if (!line || line.startsWith("#")) continue;
    const at = line.indexOf("=");
    if (at < 1) return { fault: `Line ${index + 1} is not like key = value` };
    settings[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { settings };
}

/** A value as properties files have it. */
const escaped = (value) => value.replaceAll("\\", "\\\\");

export function transformsTab(redraw) {
  const state = { text: null, file: null, topics: "", sample: 100, answer: null, asked: null, errors: [], busy: false };

  const edited = () => state.text !== null && state.text !== state.file;

  /** What is sent; `settings` null compares with nothing. */
  function request() {
    const topics = state.topics.split(/[\s,]+/).filter(Boolean);
    const settings = edited() ? (parsed(state.text).settings ?? null) : null;
    return { settings, topics, sample: state.sample, examples: 20 };
  }

  async function preview(flow) {
    const asked = request();
    Object.assign(state, { busy: true, errors: [] });
    redraw();
    try {
      const answer = await post(`${flowPath(flow.source, flow.target)}/transforms/preview`, asked);
      Object.assign(state, { answer, asked, errors: answer.errors });
    } catch (error) {
      if (!error.errors) throw error;
      // The preview of an earlier edit must not stay.
      Object.assign(state, { answer: null, asked: null, errors: error.errors });
    }
    state.busy = false;
    redraw();
  }

  function take(answer) {
    const file = written(answer.settings);
    if (state.text === null || state.text === state.file) state.text = file;
    state.file = file;
  }

  function draw(answer, flow) {
    take(answer);
    const { fault } = edited() ? parsed(state.text) : {};
    const here = answer.elsewhere && !edited() ? "Use the command above for this preview" : null;
    const why = whyNot("edit", flow) ?? (state.busy ? "Reading the newest records" : (fault ?? here));
    const fresh = JSON.stringify(state.asked) === JSON.stringify(request());
    return h(
      "div",
      { class: "transforms", key: "transforms" },
      answer.elsewhere
        ? h(
            "div",
            { class: "notice info", "data-testid": "transforms-elsewhere" },
            icon("question"),
            h("p", null, `${answer.elsewhere}. This shows what it does: `, command(answer.command)),
          )
        : null,
      editor(answer, flow, fault),
      h(
        "div",
        { class: "line" },
        h(
          "label",
          { class: "field grow" },
          h("span", null, "Topics of the source"),
          h("input", {
            value: state.topics,
            placeholder: "the first ten that are copied",
            "data-testid": "transforms-topics",
            autocomplete: "off",
            spellcheck: "false",
            oninput: (event) => {
              state.topics = event.target.value;
              redraw();
            },
          }),
        ),
        h(
          "label",
          { class: "field" },
          h("span", null, "Newest records of each"),
          h(
            "select",
            {
              "data-testid": "transforms-sample",
              onchange: (event) => {
                state.sample = Number(event.target.value);
                redraw();
              },
            },
            SAMPLES.map((one) => h("option", { value: one, selected: one === state.sample }, exact(one))),
          ),
        ),
        button(state.busy ? "Reading the newest records…" : "Preview", {
          picture: "search",
          kind: fresh ? "" : "primary",
          testid: "transforms-preview",
          why,
          onclick: () => preview(flow),
        }),
      ),
      faults(state.errors, "transforms-faults"),
      state.answer ? outcome(state.answer, state.asked, fresh, flow) : null,
    );
  }

  function editor(answer, flow, fault) {
    const rows = Math.min(18, Math.max(9, (state.file ?? "").split("\n").length + 2));
    return h(
      "div",
      { class: "field", key: "editor" },
      h("label", { for: "transforms-text" }, h("b", null, "Transforms, predicates and formats")),
      h(
        "small",
        { class: "muted", id: "transforms-help" },
        `One key = value per line, without the prefix ${flow.flow}. Try an edit here, then copy it to the ` +
          "properties file.",
      ),
      h("textarea", {
        id: "transforms-text",
        rows,
        value: state.text,
        spellcheck: "false",
        autocapitalize: "off",
        "data-testid": "transforms-text",
        "aria-describedby": "transforms-help",
        "aria-invalid": fault ? "true" : null,
        placeholder: "No transforms: records are copied as they are",
        readonly: !answer.editable,
        oninput: (event) => {
          state.text = event.target.value;
          redraw();
        },
      }),
      fault ? h("p", { class: "fault", role: "alert", "data-testid": "transforms-line" }, icon("warning"), fault) : null,
      edited()
        ? button("As in the file", {
            kind: "quiet small reset",
            testid: "transforms-reset",
            onclick: () => {
              state.text = state.file;
              redraw();
            },
          })
        : null,
    );
  }

  return {
    id: "transforms",
    label: "Transforms",
    load: (flow, signal) => get(`${flowPath(flow.source, flow.target)}/transforms`, {}, signal),
    draw,
  };
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The number of records by result, for the flow and for the edit, and examples. */
function outcome(answer, asked, fresh, flow) {
  const { compared, counts, other_counts: others, differences } = answer;
  const alike = others && !Object.keys(differences).length;
  return h(
    "section",
    {
      class: `outcome ${fresh ? "" : "old"}`,
      key: "outcome",
      "data-testid": "transforms-outcome",
      "aria-label": "Preview",
      "aria-live": "polite",
    },
    h(
      "h2",
      null,
      fresh ? `The newest ${plural(compared, "record")}` : "The edit has changed since this preview",
      h("span", { class: "muted" }, " Nothing was written."),
    ),
    answer.ended_early
      ? h("p", { class: "fault warn", "data-testid": "transforms-ended" }, icon("warning"), `${capital(answer.ended_early)}.`)
      : null,
    compared ? tally(counts, others) : empty("No records", "The topics have none, or they were all deleted."),
    others && compared
      ? h(
          "div",
          { class: "chips", "data-testid": "transforms-differences" },
          h("b", null, "The edit would alter: "),
          alike
            ? "none of them"
            : Object.entries(differences).map(([kind, number]) =>
                h("span", { class: `chip ${TONES[kind] ?? "good"}` }, `${exact(number)} ${kind}`),
              ),
        )
      : null,
    compared && !answer.values_shown
      ? h(
          "p",
          { class: "muted", "data-testid": "transforms-hidden" },
          "Keys, values and headers are not shown. For this flow, ",
          h("code", null, "preview.values.enabled = true"),
          " in the properties file shows them to users who may edit it.",
        )
      : null,
    answer.topics_left_out.length
      ? h("p", { class: "muted" }, `${plural(answer.topics_left_out.length, "more topic")} not read; name them above.`)
      : null,
    asked.settings && fresh ? lines(asked.settings, flow) : null,
    answer.records.length ? examples(answer) : null,
  );
}

function tally(counts, others) {
  const columns = [
    { label: "Result", cell: ([result]) => chip(result) },
    { label: "Now", right: true, cell: ([result]) => exact(counts[result]) },
    ...(others ? [{ label: "With the edit", right: true, cell: ([result]) => h("b", null, exact(others[result])) }] : []),
  ];
  const rows = Object.entries(RESULTS);
  return h(
    "div",
    { class: "tally" },
    table({ label: "Results", columns, rows, key: ([result]) => result, testid: "transforms-count" }),
  );
}

const chip = (result) => h("span", { class: `chip ${RESULTS[result][0]}` }, icon(RESULTS[result][1]), result);

function examples(answer) {
  const place = (one) =>
    h(
      "div",
      { class: "name" },
      h("span", { class: "break" }, `${one.topic}-${one.partition}`),
      h("small", { class: "muted number" }, `offset ${one.offset}`),
      one.difference ? h("span", { class: `chip ${TONES[one.difference] ?? "good"}` }, one.difference) : null,
    );
  const columns = [
    { label: "Record", cell: place },
    ...(answer.values_shown ? [{ label: "At the source", cell: (one) => parts(one.before) }] : []),
    { label: "Now", cell: (one) => result(one.after, one.before) },
    ...(answer.other_counts ? [{ label: "With the edit", cell: (one) => result(one.other, one.before) }] : []),
  ];
  const key = (one) => `${one.topic} ${one.partition} ${one.offset}`;
  return h(
    "div",
    { class: "examples" },
    table({ label: "Examples", columns, rows: answer.records, key, testid: "transforms-example" }),
  );
}

/** The result for a record; of a changed one, only the changed parts. */
function result(one, before) {
  return h(
    "div",
    { class: "told" },
    h("div", null, chip(one.result)),
    one.reason ? h("span", { class: "break fault-text" }, one.reason) : null,
    one.result === "changed" && one.record ? parts(one.record, before) : null,
  );
}

function parts(record, before = null) {
  const shown = ["key", "value"].map((name) => [name, partText(record[name], record[`${name}_bytes`])]);
  shown.push(["headers", headersText(record)]);
  const was = before
    ? { key: partText(before.key, before.key_bytes), value: partText(before.value, before.value_bytes), headers: headersText(before) }
    : null;
  const kept = shown.filter(([name, text]) => (was ? was[name] !== text : name !== "headers" || text));
  if (was && !kept.length) return h("span", { class: "muted" }, was ? "beyond what is shown" : "");
  return h(
    "dl",
    { class: "parts" },
    kept.map(([name, text]) => [h("dt", null, name), h("dd", null, text === null ? h("i", null, "null") : h("code", null, text))]),
  );
}

function partText(text, size) {
  if (text === null) return null;
  const whole = text.length <= SHOWN && size <= SHOWN_BYTES;
  return whole ? text : `${text.slice(0, SHOWN)}… (${exact(size)} bytes)`;
}

function headersText(record) {
  const text = record.headers.map(([name, value]) => `${name}=${value ?? "null"}`).join(", ");
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}… (${plural(record.headers_count, "header")})`;
}

/** The lines of the file by which the edit would take effect. */
function lines(settings, flow) {
  const text = Object.entries(settings)
    .map(([key, value]) => `${flow.flow}.${key} = ${escaped(value)}`)
    .join("\n");
  return h(
    "details",
    { class: "past", "data-testid": "transforms-lines" },
    h("summary", null, "Lines for the properties file"),
    h("p", { class: "muted" }, "In place of the flow's keys of this kind. They take effect with the next run."),
    text ? h("pre", { tabindex: 0 }, text) : h("p", null, "None: remove the keys."),
  );
}
