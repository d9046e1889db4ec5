// Keyboard shortcuts.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { go, route } from "./route.js";

const KEYS = [
  ["/", "Search", () => document.querySelector("[type=search]")?.focus()],
  ["r", "Refresh", (page) => page.reload()],
  ["j", "Next row", () => step(1)],
  ["k", "Previous row", () => step(-1)],
  ["u", "Back to all flows", () => route().path.length && go([])],
  ["?", "This list", () => showKeys()],
];

export function startKeys(page) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches?.("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const found = KEYS.find(([key]) => key === event.key);
    if (!found) return;
    event.preventDefault();
    found[2](page);
  });
}

function step(by) {
  const links = [...document.querySelectorAll(".row-link")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
}

function showKeys() {
  openDialog({
    title: "Keys",
    testid: "keys",
    draw: () =>
      h(
        "dl",
        { class: "keys" },
        [...KEYS, ["Enter", "Open the row"], ["Esc", "Close"]].map(([key, text]) =>
          h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, text)),
        ),
      ),
  });
}
