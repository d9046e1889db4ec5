// Tables of a flow's parts: columns as data, pages by the API, sorting by the address.

import { h, icon } from "./dom.js";
import { route, setQuery } from "./route.js";

/**
 * `columns`: { label, cell(row), right, sort } where `sort` is the API's word; `rows` with `key(row)`; `below(row)`
 * gives what is shown under a row, or null; `tone(row)` colours it; `usual`: the order without one in the
 * address.
 */
export function table({ label, columns, rows, key, below = () => null, usual, tone = () => "", testid }) {
  return h(
    "div",
    // Reached by keys, as it may have to be scrolled sideways.
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: "rows", "data-testid": testid },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((column) => heading(column, usual)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) => [line(row, columns, key, tone, testid), under(row, columns.length, key, below)]),
      ),
    ),
  );
}

function heading({ label, right, sort }, usual) {
  if (sort) return sortable(sort, label, { right, usual });
  return h("th", { scope: "col", class: right ? "right" : "" }, label);
}

function line(row, columns, key, tone, testid) {
  const name = key(row);
  const cells = columns.map(({ cell, right, label }, index) =>
    h(
      index ? "td" : "th",
      { scope: index ? null : "row", class: right ? "right number" : "", "data-label": label },
      cell(row),
    ),
  );
  return h("tr", { key: name, class: tone(row), "data-testid": `${testid}-${name}` }, cells);
}

function under(row, span, key, below) {
  const content = below(row);
  return content ? h("tr", { key: `under ${key(row)}`, class: "under" }, h("td", { colspan: span }, content)) : null;
}

/** A heading that sorts by a click: figures (`right`) the largest first. A third click goes back to the usual order. */
export function sortable(name, label, { right = false, parameter = "order", usual = "" } = {}) {
  const order = route().query.get(parameter) ?? usual;
  const now = order === name ? "ascending" : order === `-${name}` ? "descending" : null;
  const [first, second] = right ? [`-${name}`, name] : [name, `-${name}`];
  const next = order === first ? second : order === second ? null : first;
  return h(
    "th",
    { scope: "col", "aria-sort": now ?? "none", class: right ? "right" : "" },
    h(
      "button",
      {
        type: "button",
        class: "sort",
        "data-testid": `sort-${name}`,
        onclick: () => setQuery({ [parameter]: next, offset: null }),
      },
      label,
      icon("down", { class: now ?? "unsorted" }),
    ),
  );
}
