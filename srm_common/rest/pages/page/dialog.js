// Dialogs: Airflow's frame allows no alert and no confirm. The browser keeps the focus inside and closes with Escape.

import { h, patch } from "./dom.js";
import { button, faults } from "./widgets.js";

/**
 * Open a dialog. `draw(dialog)` returns its content and is called again by `dialog.redraw()`. Returns the dialog, with
 * `closed`, a promise that resolves when it is closed.
 */
export function openDialog({ title, testid, wide = false, draw }) {
  const before = document.activeElement;
  const heading = `title-${testid}`;
  const box = h("dialog", { class: `dialog ${wide ? "wide" : ""}`, "aria-labelledby": heading, "data-testid": testid });
  const body = h("div", { class: "dialog-body" });
  const close = button("", {
    picture: "close",
    kind: "quiet",
    "aria-label": "Close",
    testid: `${testid}-close`,
    onclick: () => box.close(),
  });
  box.append(h("header", null, h("h2", { id: heading }, title), close), body);
  const dialog = { box, close: () => box.close(), redraw: () => box.isConnected && patch(body, draw(dialog)) };
  dialog.closed = new Promise((done) => {
    box.onclose = () => {
      box.remove();
      before?.isConnected && before.focus();
      done();
    };
  });
  document.body.append(box);
  patch(body, draw(dialog));
  box.showModal();
  body.querySelector("[autofocus]")?.focus();
  return dialog;
}

/**
 * Ask before something is done. `act` does it; what it throws is shown, and the dialog stays. `sentences` say what will
 * happen. Resolves to what `act` returned, or null if it was cancelled.
 */
export async function confirm({ title, sentences, label, act, testid = "confirm", kind = "primary" }) {
  const state = { busy: false, errors: [], result: null };
  const run = async (dialog) => {
    Object.assign(state, { busy: true, errors: [] });
    dialog.redraw();
    try {
      state.result = await act();
      dialog.close();
    } catch (error) {
      Object.assign(state, { busy: false, errors: error.errors ?? [{ message: error.message }] });
      dialog.redraw();
    }
  };
  const dialog = openDialog({
    title,
    testid,
    draw: (self) => [
      sentences.map((one) => (one instanceof Node ? one.cloneNode(true) : one && h("p", { class: "break" }, one))),
      faults(state.errors, `${testid}-faults`),
      footer(
        button("Cancel", { testid: `${testid}-cancel`, onclick: self.close }),
        button(state.busy ? "Working…" : label, {
          kind,
          testid: `${testid}-ok`,
          autofocus: true,
          why: state.busy ? "In progress" : null,
          onclick: () => run(self),
        }),
      ),
    ],
  });
  await dialog.closed;
  return state.result;
}

/** The buttons at a dialog's foot. */
export const footer = (...buttons) => h("footer", { key: "footer" }, buttons);
