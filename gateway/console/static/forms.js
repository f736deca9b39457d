// Controls with labels, questions before what cannot be undone, and what came of an action.
import { el } from "./dom.js";

export function labelled(name, control, note = "") {
  const said = note ? el("p", { class: "note", id: `${control.id}-note` }, note) : null;
  if (said) control.setAttribute("aria-describedby", said.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, name), control, said);
}

export const textInput = (id, attributes = {}) => el("input", { id, name: id, autocomplete: "off", spellcheck: "false", ...attributes });
export const choice = (id, options, chosen) => el("select", { id, name: id }, options.map(([value, name]) => el("option", { value, selected: value === chosen }, name)));

// Ask in a dialog of the browser's own, which keeps the focus and closes with Escape. Resolves to the form's values, or null.
export function question(title, nodes, sure, { danger = false } = {}) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const form = el("form", { method: "dialog", class: "stack" }, el("h2", { id: "question" }, title), nodes,
      el("div", { class: "row end" }, el("button", { type: "button", class: "quiet", on: { click: () => dialog.close("") } }, "Cancel"),
        el("button", { type: "submit", value: "yes", class: danger ? "danger" : "main" }, sure)));
    const dialog = el("dialog", { "aria-labelledby": "question", on: { close: () => {
      resolve(dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null);
      dialog.remove();
      before?.focus?.();
    } } }, form);
    document.getElementById("main").append(dialog);
    dialog.showModal();
  });
}

export const sure = (title, text, yes) => question(title, el("p", {}, text), yes, { danger: true }).then((answer) => answer !== null);

// A line that says what came of the last action, for eyes and screen readers.
export function outcome() {
  const line = el("p", { class: "note", role: "status" });
  const tell = (text, bad = false) => { line.className = bad ? "notice bad" : "note"; line.textContent = text; };
  return { line, tell, attempt: async (act) => { try { tell((await act()) ?? ""); return true; } catch (error) { tell(error.message, true); return false; } } };
}

export async function copyText(text) {
  if (navigator.clipboard) { try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed here: as below */ } }
  const area = el("textarea", { "aria-hidden": "true", class: "hidden", readonly: true });
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function copyButton(name, text) {
  const made = el("button", { type: "button", on: { click: async () => {
    const done = await copyText(typeof text === "function" ? text() : text);
    made.textContent = done ? "Copied" : "Not copied: select it by hand";
    setTimeout(() => { made.textContent = name; }, 2500);
  } } }, name);
  return made;
}
