// Building and refreshing elements. Text only ever becomes text nodes, so names with HTML in them stay names.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = [
  "onclick",
  "oninput",
  "onchange",
  "onkeydown",
  "onclose",
  "ontoggle",
  "onpointermove",
  "onpointerleave",
];

/**
 * An element. `props`: attributes; `on...` handlers; `key` tells rows of a list apart when they are refreshed; `style`
 * is an object; null, undefined and false leave an attribute out. Children: nodes, texts, numbers, lists, null.
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "key") element.dataset.key = value;
    else if (name === "style") for (const [rule, text] of Object.entries(value)) element.style.setProperty(rule, text);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/**
 * Make the children of `parent` look like these, changing as little as possible: what has the focus keeps it, what is
 * open stays open, and scrolling does not jump. An element with a method `adopt` is handed its predecessor of the same
 * key instead of being compared, and decides itself.
 */
export function patch(parent, ...children) {
  const wanted = nodes(children);
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  const kept = new Set();
  let at = parent.firstChild;
  for (const node of wanted) {
    while (at && kept.has(at)) at = at.nextSibling;
    const key = node.dataset?.key;
    const old = key ? keyed.get(key) : at?.dataset?.key ? null : at;
    if (old && !kept.has(old) && alike(old, node)) {
      if (old !== at) parent.insertBefore(old, at);
      kept.add(old);
      morph(old, node);
    } else {
      parent.insertBefore(node, at);
      kept.add(node);
    }
  }
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
}

function alike(old, node) {
  return old.nodeType === node.nodeType && old.nodeName === node.nodeName && old.dataset?.key === node.dataset?.key;
}

function morph(old, node) {
  if (old === node) return;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  if (node.adopt) {
    node.adopt(old);
    return;
  }
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    // Whether something is open is up to the reader.
    if (!node.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const name of HANDLERS) old[name] = node[name];
  if ("checked" in node) old.checked = node.checked;
  if (node instanceof HTMLInputElement || node instanceof HTMLTextAreaElement) {
    if (old !== document.activeElement && old.value !== node.value) old.value = node.value;
  }
  patch(old, ...node.childNodes);
  if (node instanceof HTMLSelectElement) old.value = node.value;
}

/** A small picture of `paths` (SVG path data) in a 24 by 24 box, in the colour of the text. */
export function icon(name, props = {}) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: `icon ${props.class ?? ""}`, "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[name] }),
  );
}

const ICONS = {
  arrow: "M4 12h15M13 6l6 6-6 6",
  back: "M20 12H5M11 6l-6 6 6 6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  clock: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM12 7.5V12l3 2",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  cross: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM9 9l6 6M15 9l-6 6",
  down: "M6 9l6 6 6-6",
  drop: "M12 3.5s-6 6.7-6 10.6a6 6 0 0 0 12 0c0-3.9-6-10.6-6-10.600z",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  forward: "M5 6l7 6-7 6zM13 6l7 6-7 6z",
  idle: "M5 12h14",
  link: "M14 4h6v6M20 4l-9 9M18 14v5H5V6h5",
  move: "M3 8h17l-4-4M21 16H4l4 4",
  pause: "M8.5 6v12M15.5 6v12",
  play: "M8 5.500v13l10.5-6.500z",
  pulse: "M3 12h4l2.500-6 4.500 12 2.500-6h4.500",
  question: "M9 9a3 3 0 1 1 4.2 2.800c-.9.4-1.2 1-1.2 2.200M12 17.500v.1",
  refresh: "M19.5 12a7.5 7.5 0 1 1-2.3-5.400M19.5 4v4.500H15",
  resume: "M6 5v14M10 5.500v13l9.5-6.500z",
  search: "M11 4.500a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM16 16l4.5 4.5",
  stalled: "M7 4h10M7 20h10M8 4c0 5 8 5 8 8s-8 3-8 8M16 4c0 2.5-2 4-4 5.500M16 20c0-2.5-2-4-4-5.5",
  warning: "M12 4L2.8 19.500h18.400zM12 10v4.500M12 17v.1",
};
