// A metric over time: the average as a line, minimum to maximum as a band, what 99 of 100 records did not exceed
// as a dashed line where that is known. uPlot draws it (vendor/), loaded when the first chart is shown.

import { h } from "./dom.js";
import { NOTHING, known, percentiles, time } from "./format.js";
import { colour } from "./scheme.js";

const HEIGHT = 168;
/** Without a report for this many times the usual distance the line has a gap. */
const GAP = 4;
/** Below this number of samples each is a dot: one alone would not be seen. */
const FEW = 12;
/** Steps of an axis: whole figures, and round durations also above the second. */
const STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800];
const FIGURES = ["min", "avg", "max", "p50", "p95", "p99"];
const DURATIONS = [...STEPS.filter((one) => one < 1000), ...SECONDS.map((one) => one * 1000)];

let library;

function loadLibrary() {
  library ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("vendor/uPlot.iife.min.js", import.meta.url);
    script.onload = () => done(window.uPlot);
    script.onerror = failed;
    document.head.append(script);
  });
  return library;
}

/**
 * A chart. `series` is the API's Series, null while it is loading; `fault` a sentence instead; `format` makes texts of
 * values; `tone` is one of theme.css. Redrawn with the same key it takes the new values and keeps the cursor.
 */
export function chart({ key, title, series, fault, format, tone, testid }) {
  const figureNow = h("b", { class: "number" });
  const when = h("span", { class: "muted number" });
  const plot = h("div", { class: "plot" });
  const nothing = h("p", { class: "muted nothing", hidden: true });
  const figure = h(
    "figure",
    { class: "chart", key, "data-testid": testid, role: "group" },
    h("figcaption", null, h("span", null, title), figureNow, when),
    plot,
    nothing,
  );
  const state = { title, series, fault, format, tone, uplot: null, data: null };
  figure.state = state;

  figure.take = (next) => {
    Object.assign(state, next);
    state.data = columns(state.series);
    const empty = !state.data[0].length;
    nothing.hidden = !empty;
    plot.hidden = empty;
    nothing.textContent = state.fault ?? (state.series ? "No data in this time range." : "Loading…");
    latest();
    if (empty) return;
    if (!state.uplot) build();
    else {
      const { start_ms, end_ms } = state.series.range;
      state.uplot.batch(() => {
        state.uplot.setData(state.data, false);
        state.uplot.setScale("x", { min: start_ms / 1000, max: end_ms / 1000 });
      });
      // Not in the batch: it would use the x axis as it was before, and cut off newer points.
      state.uplot.redraw(true, true);
    }
  };
  figure.adopt = (old) => {
    old.querySelector("figcaption > span").textContent = title;
    old.take({ title, series, fault, format, tone });
  };

  function latest() {
    const point = state.series?.points.at(-1);
    figureNow.textContent = point ? state.format(point.latest ?? point.avg) : NOTHING;
    when.textContent = point ? `at ${time(point.latest_ms ?? point.end_ms).slice(11)}` : "";
    figure.setAttribute("aria-label", `${state.title}: ${figureNow.textContent} ${when.textContent}`);
  }

  function hovered(uplot) {
    const at = uplot.cursor.idx;
    if (at === null || at === undefined || uplot.cursor.left < 0 || !known(state.data[2][at])) return latest();
    const [least, average, most] = [1, 2, 3].map((index) => state.format(state.data[index][at]));
    figureNow.textContent = average;
    const [p50, p95, p99] = [4, 5, 6].map((index) => state.data[index][at]);
    const spread = percentiles({ p50, p95, p99 }, state.format);
    when.textContent = `${least} – ${most}, ${spread ? `${spread}, ` : ""}${time(state.data[0][at] * 1000).slice(5, 16)}`;
  }

  async function build() {
    const uPlot = await loadLibrary().catch(() => null);
    if (!uPlot || state.uplot || !figure.isConnected) return;
    const { start_ms, end_ms } = state.series.range;
    const strong = () => colour(`${state.tone}-strong`);
    const axis = {
      stroke: () => colour("muted"),
      font: `11px ${colour("sans")}`,
      grid: { stroke: () => colour("line"), width: 1 },
      ticks: { show: false },
    };
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    const options = {
      width: Math.max(160, plot.clientWidth),
      height: HEIGHT,
      padding: [10, 20, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "charts" }, y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        x: { time: true, range: (_, min, max) => [min, max] },
        y: { range: (_, min, max) => [0, Math.max(max, 1) * 1.08] },
      },
      axes: [
        { ...axis, size: 26, space: 70, values: times },
        {
          ...axis,
          size: 62,
          incrs: state.series.unit.startsWith("milli") ? DURATIONS : STEPS,
          // Round figures need no decimals.
          values: (_, splits) => splits.map((value) => state.format(value).replace(/\.0+(?=\D)/, "")),
        },
      ],
      series: [
        {},
        { ...edge },
        { stroke: strong, width: 1.75, points: { show: (uplot) => uplot.data[0].length < FEW, size: 5, fill: strong } },
        { ...edge },
        { ...edge },
        { ...edge },
        { stroke: strong, width: 1, dash: [4, 4], points: { show: false } },
      ],
      bands: [{ series: [3, 1], fill: () => `color-mix(in oklch, ${strong()} 18%, transparent)` }],
      hooks: { setCursor: [hovered] },
    };
    state.uplot = new uPlot(options, state.data, plot);
    state.uplot.setScale("x", { min: start_ms / 1000, max: end_ms / 1000 });
    new ResizeObserver(
      () => plot.clientWidth && state.uplot.setSize({ width: plot.clientWidth, height: HEIGHT }),
    ).observe(plot);
  }

  // Once it is on the page, where it has a width.
  queueMicrotask(() => figure.isConnected && figure.take({}));
  return figure;
}

/** Times of day, or days if the steps are that long. */
function times(_, splits, __, ___, step) {
  return splits.map((at) =>
    step >= 86400 ? time(at * 1000).slice(5, 10) : time(at * 1000).slice(11, step < 60 ? 19 : 16),
  );
}

/** [times, min, average, max, p50, p95, p99] in uPlot's format, with a null where reports are missing. */
function columns(series) {
  const result = [[], ...FIGURES.map(() => [])];
  const points = series?.points ?? [];
  const middle = (point) => (point.start_ms + point.end_ms) / 2000;
  const distances = points
    .slice(1)
    .map((point, index) => middle(point) - middle(points[index]))
    .sort((one, other) => one - other);
  const usual = distances[Math.floor(distances.length / 2)] ?? Infinity;
  let before = null;
  const add = (at, point) => {
    result[0].push(at);
    FIGURES.forEach((name, index) => result[index + 1].push(point ? (point[name] ?? null) : null));
  };
  for (const point of points) {
    const at = middle(point);
    if (before !== null && at - before > GAP * usual) add(before + usual, null);
    add(at, point);
    before = at;
  }
  return result;
}
