// Light or dark: as Airflow shows itself around the page, else as the browser prefers.

import { airflowWindow } from "./route.js";

const preference = matchMedia("(prefers-color-scheme: dark)");

/** Follow from now on. `changed` is called when it turns, for what is drawn in fixed colours. */
export function followScheme(changed) {
  const outer = airflowWindow()?.document.documentElement;
  const apply = () => {
    const theme = dark(outer) ? "dark" : "light";
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    changed();
  };
  preference.addEventListener("change", apply);
  if (outer) {
    const watch = { attributes: true, attributeFilter: ["class", "data-theme", "style"] };
    new MutationObserver(apply).observe(outer, watch);
  }
  apply();
}

function dark(outer) {
  if (outer?.classList.contains("dark")) return true;
  if (outer?.classList.contains("light")) return false;
  return preference.matches;
}

/** The colour that a variable of theme.css stands for now. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
