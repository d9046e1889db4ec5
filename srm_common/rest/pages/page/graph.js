// The graph of clusters and flows. Clusters are on an ellipse, with a hub, which most flows touch, in its middle; every
// flow is an arrow in the colour of its health, with its lag beside it.

import { svg } from "./dom.js";
import { byteRate, lagCount, leastLag } from "./format.js";
import { link } from "./route.js";
import { stateOf } from "./states.js";

const WIDTH = 560;
const NODE = { height: 38, widest: 128 };
/** With more the picture would be a tangle. */
export const MOST_CLUSTERS = 16;

/** `clusters` and `flows` as the API has them. */
export function clusterGraph(clusters, flows) {
  const height = clusters.length > 6 ? 430 : clusters.length > 2 ? 340 : 170;
  const places = placed(
    clusters.map((one) => one.alias),
    flows,
    height,
  );
  const opposite = new Set(flows.map((flow) => `${flow.target}\n${flow.source}`));
  const edges = flows
    .filter((flow) => places.has(flow.source) && places.has(flow.target))
    // Flows that need attention are drawn last, on top.
    .sort((one, other) => stateOf(one.health.state).act - stateOf(other.health.state).act)
    .map((flow) => edge(flow, places, opposite.has(`${flow.source}\n${flow.target}`)));
  return svg(
    "svg",
    {
      class: "graph",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "group",
      "aria-label": "Clusters and flows",
      "data-testid": "graph",
    },
    svg("defs", null, ["lost", "bad", "warn", "info", "good", "calm"].map(head)),
    edges.map(([line]) => line),
    clusters.map((cluster) => node(cluster, places.get(cluster.alias))),
    edges.map(([, label]) => label),
  );
}

function placed(names, flows, height) {
  const degree = new Map(names.map((name) => [name, 0]));
  for (const flow of flows) {
    for (const end of [flow.source, flow.target]) degree.set(end, (degree.get(end) ?? 0) + 1);
  }
  const ordered = [...names].sort((one, other) => degree.get(other) - degree.get(one) || one.localeCompare(other));
  const middle = { x: WIDTH / 2, y: height / 2 };
  const places = new Map();
  const touching = flows.filter((flow) => flow.source === ordered[0] || flow.target === ordered[0]).length;
  const hub = names.length > 3 && touching > flows.length * 0.7 ? ordered[0] : null;
  if (hub) places.set(hub, middle);
  const round = names.filter((name) => name !== hub).sort();
  round.forEach((name, index) => {
    const angle = Math.PI + (2 * Math.PI * index) / round.length - (round.length === 4 ? Math.PI / 4 : 0);
    const reach = { x: WIDTH / 2 - NODE.widest / 2 - 8, y: height / 2 - NODE.height / 2 - 10 };
    places.set(name, {
      x: middle.x + reach.x * Math.cos(angle),
      y: middle.y + (round.length > 2 ? reach.y : 0) * Math.sin(angle),
    });
  });
  for (const [name, place] of places) place.half = Math.min(NODE.widest, 34 + shown(name).length * 7.6) / 2;
  return places;
}

const shown = (name) => (name.length > 13 ? `${name.slice(0, 12)}…` : name);

function head(tone) {
  const box = {
    id: `head-${tone}`,
    viewBox: "0 0 8 8",
    refX: 6.5,
    refY: 4,
    markerWidth: 9,
    markerHeight: 9,
    markerUnits: "userSpaceOnUse",
    orient: "auto",
  };
  return svg("marker", box, svg("path", { d: "M0 0.5L7.5 4L0 7.5Z", class: `head ${tone}` }));
}

function edge(flow, places, bothWays) {
  const [from, to] = [places.get(flow.source), places.get(flow.target)];
  const { word, tone } = stateOf(flow.health.state);
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const bend = bothWays ? Math.min(34, length / 6) : Math.min(10, length / 20);
  const control = {
    x: (from.x + to.x) / 2 - (dy / length) * bend * 2,
    y: (from.y + to.y) / 2 + (dx / length) * bend * 2,
  };
  const [start, end] = [rim(from, control), rim(to, control)];
  const d = `M${start.x} ${start.y}Q${control.x} ${control.y} ${end.x} ${end.y}`;
  const middle = { x: (start.x + end.x) / 4 + control.x / 2, y: (start.y + end.y) / 4 + control.y / 2 };
  const rate = flow.metrics["byte-rate"]?.avg;
  const still = ["paused", "unknown"].includes(flow.health.state);
  const width = still ? 1.6 : 1.6 + Math.min(2.6, Math.log10(1 + (rate ?? 0) / 1e5));
  const words =
    `${flow.source} to ${flow.target}: ${word}, ${lagCount(flow)} records behind, ${byteRate(rate)}. ` +
    flow.health.cause;
  const href = link(["flows", flow.source, flow.target]);
  const line = svg(
    "a",
    {
      href,
      class: `edge ${tone} ${still ? "still" : ""}`,
      "aria-label": words,
      "data-testid": `graph-${flow.flow}`,
      key: flow.flow,
    },
    svg("title", null, words),
    svg("path", { d, class: "reach" }),
    svg("path", { d, class: "line", "stroke-width": width.toFixed(1), "marker-end": `url(#head-${tone})` }),
  );
  return [line, label(flow, middle, tone)];
}

/** Lag beside the arrow, where there is something to say. */
function label(flow, at, tone) {
  const act = stateOf(flow.health.state).act || flow.health.state === "catching_up";
  if (!leastLag(flow) && (!act || flow.lag === 0)) return null;
  const text = leastLag(flow) ? lagCount(flow) : "?";
  const half = 7 + text.length * 3.5;
  return svg(
    "g",
    {
      class: `lag ${act ? tone : "plain"}`,
      transform: `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`,
      "aria-hidden": "true",
      key: `lag ${flow.flow}`,
    },
    svg("rect", { x: -half, y: -9, width: 2 * half, height: 18, rx: 9 }),
    svg("text", { y: 4 }, text),
  );
}

/** Where the line from a node's centre to a point leaves its box. */
function rim(box, point) {
  const [dx, dy] = [point.x - box.x, point.y - box.y];
  const scale = Math.min(
    (box.half + 4) / Math.max(1e-6, Math.abs(dx)),
    (NODE.height / 2 + 4) / Math.max(1e-6, Math.abs(dy)),
  );
  return { x: +(box.x + dx * scale).toFixed(1), y: +(box.y + dy * scale).toFixed(1) };
}

function node(cluster, place) {
  const tone = cluster.reachable === false ? "bad" : cluster.reachable ? "good" : "calm";
  const words =
    cluster.reachable === false
      ? `not reachable: ${cluster.fault}`
      : cluster.reachable
        ? "reachable"
        : "not queried recently";
  return svg(
    "g",
    {
      class: `node ${tone}`,
      transform: `translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})`,
      role: "img",
      "aria-label": `Cluster ${cluster.alias}, ${words}`,
      "data-testid": `cluster-${cluster.alias}`,
      key: `node ${cluster.alias}`,
    },
    svg("title", null, `${cluster.alias}: ${words}`),
    svg("rect", { x: -place.half, y: -NODE.height / 2, width: 2 * place.half, height: NODE.height, rx: 9 }),
    svg("circle", { cx: -place.half + 15, r: 4 }),
    svg("text", { x: 9, y: 5 }, shown(cluster.alias)),
  );
}
