// A line without axes: a metric over the selected range, with gaps where there was no report.

import { svg } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 26;

/** `line` as the API's Sparkline; `tone` of theme.css; `label` says it in words. */
export function sparkline(line, tone, label) {
  const values = line?.values ?? [];
  const there = values.filter((value) => value !== null);
  const frame = {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: `spark ${tone}`,
    role: "img",
    "aria-label": label,
    preserveAspectRatio: "none",
  };
  if (!there.length) return svg("svg", frame, svg("path", { class: "none", d: `M0 ${HEIGHT - 2}H${WIDTH}` }));
  const top = Math.max(...there, 1e-9);
  const step = WIDTH / values.length;
  const y = (value) => (HEIGHT - 2 - (value / top) * (HEIGHT - 5)).toFixed(1);
  const parts = pieces(values).map((piece) => {
    // From the middle of its first bucket to that of its last; one alone, and what reaches the edges, over all of it.
    const [first, last] = [piece[0][0], piece.at(-1)[0]];
    const from = first === 0 || first === last ? first * step : (first + 0.5) * step;
    const to = last === values.length - 1 || first === last ? (last + 1) * step : (last + 0.5) * step;
    const inner = piece.map(([index, value]) => `L${((index + 0.5) * step).toFixed(1)} ${y(value)}`).join("");
    const line = `M${from.toFixed(1)} ${y(piece[0][1])}${inner}L${to.toFixed(1)} ${y(piece.at(-1)[1])}`;
    return [line, `${line}L${to.toFixed(1)} ${HEIGHT}L${from.toFixed(1)} ${HEIGHT}Z`];
  });
  return svg(
    "svg",
    frame,
    parts.map(([, under]) => svg("path", { class: "under", d: under })),
    parts.map(([line]) => svg("path", { class: "line", d: line })),
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
