// Where the reader is, kept in the hash, so that every view can be linked to and the browser's Back works:
// #/flows/east/west/groups?range=6h. Inside Airflow the hash is mirrored to the outer address.

export const RANGES = [
  ["15m", "15 min", { minutes: 15 }],
  ["1h", "1 h", { hours: 1 }],
  ["6h", "6 h", { hours: 6 }],
  ["24h", "24 h", { hours: 24 }],
  ["7d", "7 d", { days: 7 }],
  ["30d", "30 d", { days: 30 }],
];
export const STATISTICS = ["avg", "min", "max"];
/** Kept from view to view. */
const LASTING = ["range", "stat"];

/** { path: decoded segments, query: URLSearchParams } */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query ?? "") };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // A link that was shortened by hand.
  }
}

/** The hash of a view, with the parameters that are kept. */
export function link(path, parameters = {}) {
  const query = new URLSearchParams();
  const now = route().query;
  for (const name of LASTING) if (now.has(name)) query.set(name, now.get(name));
  for (const [name, value] of Object.entries(parameters)) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const go = (path, parameters) => {
  location.hash = link(path, parameters);
};

/** Change parameters of this view; lists become repeated ones, empty values are removed. */
export function setQuery(changes) {
  const { path, query } = route();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") query.append(name, one);
  }
  const text = query.toString();
  history.replaceState(null, "", `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const rangeName = () => {
  const asked = route().query.get("range");
  return RANGES.some(([name]) => name === asked) ? asked : "1h";
};
/** The query of the API for the chosen range. */
export const rangeQuery = () => RANGES.find(([name]) => name === rangeName())[2];
export const statistic = () => {
  const asked = route().query.get("stat");
  return STATISTICS.includes(asked) ? asked : "avg";
};

/** The window of Airflow around this page, null when the page is not framed by Airflow. */
export function airflowWindow() {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}

/** Start at the outer address's hash, and keep it up to date; a flow's tab in Airflow starts at the flow (?dag=). */
export function startRoute(flowOfDag) {
  const outer = airflowWindow();
  const dag = new URLSearchParams(location.search).get("dag");
  if (!location.hash && dag) history.replaceState(null, "", link(flowOfDag(dag)));
  else if (!location.hash && outer?.location.hash.startsWith("#/")) history.replaceState(null, "", outer.location.hash);
  if (!outer || dag) return;
  addEventListener("hashchange", () => {
    const state = outer.history.state;
    outer.history.replaceState(state, "", outer.location.pathname + outer.location.search + location.hash);
  });
}

/** A link to a page of Airflow: opens inside its frame, or as a link of its own. `url` is relative to Airflow's base. */
export function airflowHref(url) {
  const outer = airflowWindow();
  const base = outer ? outer.document.baseURI : new URL("../", new URL(".", document.baseURI)).href;
  return new URL(url.replace(/^\//, ""), base).href;
}

export function openAirflow(event, url) {
  const outer = airflowWindow();
  if (!outer || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const target = new URL(airflowHref(url));
  outer.history.pushState({}, "", target.pathname + target.search);
  outer.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}
