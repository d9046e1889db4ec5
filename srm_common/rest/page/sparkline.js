// A line without axes: how a figure went over the chosen range. Gaps are where nothing was reported.

import { svg } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 26;

/** `line` as the API's Sparkline; `tone` of theme.css; `label` says it in words. */
export function sparkline(line, tone, label) {
  const values = line?.values ?? [];
  const there = values.filter((value) => value !== null);
  const frame = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `spark ${tone}`, role: "img", "aria-label": label, preserveAspectRatio: "none" };
  if (!there.length) return svg("svg", frame, svg("path", { class: "none", d: `M0 ${HEIGHT - 2}H${WIDTH}` }));
  const top = Math.max(...there, 1e-9);
  const step = WIDTH / Math.max(1, values.length - 1);
  const x = (index) => (index * step).toFixed(1);
  const y = (value) => (HEIGHT - 2 - (value / top) * (HEIGHT - 5)).toFixed(1);
  const parts = pieces(values);
  const path = (piece) => piece.map(([index, value], at) => `${at ? "L" : "M"}${x(index)} ${y(value)}`).join("");
  return svg(
    "svg",
    frame,
    parts.map((piece) => svg("path", { class: "under", d: `${path(piece)}L${x(piece.at(-1)[0])} ${HEIGHT}L${x(piece[0][0])} ${HEIGHT}Z` })),
    parts.map((piece) => svg("path", { class: "line", d: piece.length > 1 ? path(piece) : `${path(piece)}h2` })),
  );
}

function pieces(values) {
  const found = [];
  let piece = [];
  values.forEach((value, index) => {
    if (value !== null) piece.push([index, value]);
    else if (piece.length) {
      found.push(piece);
      piece = [];
    }
  });
  if (piece.length) found.push(piece);
  return found;
}
