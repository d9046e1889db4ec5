// Small parts that several views share.

import { h, icon } from "./dom.js";
import { age } from "./format.js";
import { airflowHref, link, openAirflow } from "./route.js";

/** A button; with `why` it is disabled and says why. */
export function button(label, { picture, why, kind = "", testid, onclick, title, ...props } = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      "data-testid": testid,
      "aria-disabled": why ? "true" : null,
      title: why ?? title,
      onclick: why ? (event) => event.preventDefault() : onclick,
      ...props,
    },
    picture ? icon(picture) : null,
    label ? h("span", { class: "label" }, label) : null,
  );
}

/** A row of exclusive choices. */
export function choices(label, options, chosen, choose, testid) {
  return h(
    "div",
    { class: "choices", role: "group", "aria-label": label, "data-testid": testid },
    options.map(([value, text]) =>
      h(
        "button",
        {
          type: "button",
          key: value,
          "aria-pressed": String(value === chosen),
          "data-testid": `${testid}-${value}`,
          onclick: () => choose(value),
        },
        text,
      ),
    ),
  );
}

/** A search field that waits for a pause in typing. */
export function search(label, value, found, testid) {
  let timer;
  return h(
    "label",
    { class: "search" },
    icon("search"),
    h("span", { class: "hide" }, label),
    h("input", {
      type: "search",
      placeholder: label,
      value,
      "data-testid": testid,
      autocomplete: "off",
      spellcheck: "false",
      oninput: (event) => {
        const text = event.target.value;
        clearTimeout(timer);
        timer = setTimeout(() => found(text.trim()), 250);
      },
    }),
  );
}

/** Errors of the API: one line each, also if several responses had the same. */
export function faults(errors, testid = "faults") {
  if (!errors?.length) return null;
  const named = (one) => `${one.service ?? ""}\n${one.message}`;
  const shown = [...new Map(errors.map((one) => [named(one), one])).values()];
  return h(
    "div",
    { class: "notice warn", role: "alert", "data-testid": testid, key: testid },
    icon("warning"),
    h(
      "ul",
      null,
      shown.map((one) =>
        h("li", { class: "break" }, one.service ? h("b", null, `${one.service}: `) : null, one.message),
      ),
    ),
  );
}

/** Shown in place of an empty list. */
export function empty(title, sentence, ...more) {
  return h(
    "div",
    { class: "empty", "data-testid": "empty" },
    h("h3", null, title),
    sentence ? h("p", null, sentence) : null,
    more,
  );
}

export const loading = (what) =>
  h("p", { class: "loading muted", role: "status" }, icon("refresh", { class: "spin" }), ` Loading ${what}…`);

/** A command that can be copied. */
export function command(text) {
  const copy = button("", {
    picture: "copy",
    kind: "quiet small",
    title: "Copy the command",
    "aria-label": "Copy the command",
    testid: "copy-command",
    onclick: () =>
      navigator.clipboard?.writeText(text).then(
        () => toast("Copied."),
        () => toast("The browser does not allow copying to the clipboard here."),
      ),
  });
  return h("span", { class: "command" }, h("code", { class: "break" }, text), copy);
}

/** What helps, in a sentence, with a link to the handbook. */
export function helpText(help) {
  return help ? h("p", { class: "muted break" }, help.text, " ", moreHelp(help)) : null;
}

/** A link to the handbook's entry about a state or an alarm. */
export function moreHelp(help) {
  if (!help?.anchor) return null;
  const props = { href: `help/operations#${help.anchor}`, class: "more-help", "data-testid": "more-help" };
  return h("a", props, "Documentation");
}

/** A link into Airflow. */
export function airflowLink(url, text, testid) {
  if (!url) return null;
  const props = { href: airflowHref(url), class: "airflow-link", "data-testid": testid };
  return h("a", { ...props, onclick: (event) => openAirflow(event, url) }, text, icon("link"));
}

/** When figures were taken; late ones are marked. */
export function taken(ms, late = false, props = {}) {
  if (!ms) return h("span", { class: "taken muted", ...props }, "never reported");
  return age(ms, { class: `taken ${late ? "late" : "muted"}`, ...props });
}

/** When a part of a flow was reported; late when the flow has been reported without it since. */
export const partTaken = (row, flow) =>
  taken(row.reported_ms, Boolean(flow.reported_ms) && row.reported_ms < flow.reported_ms - 60000);

/** A short message that disappears by itself. */
export function toast(text, { tone = "good", more = null } = {}) {
  const note = h("div", { class: `toast ${tone}`, "data-testid": "toast" }, h("span", { class: "break" }, text), more);
  const close = button("", {
    picture: "close",
    kind: "quiet small",
    "aria-label": "Close",
    onclick: () => note.remove(),
  });
  note.append(close);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 9000);
}

/** Buttons to turn pages of a list. */
export function pager(offset, limit, total, turn, testid = "pager") {
  if (total <= limit && offset === 0) return null;
  const last = Math.min(offset + limit, total);
  const at = (target) => Math.max(0, Math.min(target, Math.floor((total - 1) / limit) * limit));
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages", "data-testid": testid, key: testid },
    button("Previous", {
      picture: "back",
      testid: `${testid}-previous`,
      why: offset === 0 ? "This is the first page" : null,
      onclick: () => turn(at(offset - limit)),
    }),
    h(
      "span",
      { class: "number", "data-testid": `${testid}-text` },
      `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}`,
    ),
    button("Next", {
      picture: "arrow",
      testid: `${testid}-next`,
      why: last >= total ? "This is the last page" : null,
      onclick: () => turn(at(offset + limit)),
    }),
  );
}

/** A flow's name: source and target with an arrow between them. */
export function flowName(flow, props = {}) {
  const to = [icon("arrow"), h("span", { class: "hide" }, " to ")];
  return h(
    "span",
    { class: "flow-name", ...props },
    h("span", { class: "break" }, flow.source),
    to,
    h("span", { class: "break" }, flow.target),
  );
}

/** The other service that reports the flow, if any. */
export const teller = (flow, props = {}) =>
  flow.service
    ? h("span", { class: "chip calm", title: `Reported by the service ${flow.service}`, ...props }, `via ${flow.service}`)
    : null;

/** The name as a link to the flow's own view. */
export function flowLink(flow, props = {}) {
  return h("a", { href: link(["flows", flow.source, flow.target]), ...props }, flowName(flow));
}
