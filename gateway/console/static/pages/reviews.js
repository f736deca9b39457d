import { Failure, ask } from "../api.js";
import { chip, el, facts, panel, when } from "../dom.js";

async function pending(signal) {
  try { return await ask("/admin/review?status=pending", { signal }); } catch (error) { if (error instanceof Failure && error.status === 404) return null; throw error; }
}

const NAMES = { created_s: "escalated", expires_s: "kept until", decided_s: "decided", key_id: "key", request_id: "request" };

function card(item, again) {
  const note = el("input", { id: `note-${item.id}`, maxlength: "4096" }), said = el("p", { role: "status", class: "note" }), texts = el("div", { class: "said" });
  const decide = (verb) => async () => {
    try { await ask(`/admin/review/${encodeURIComponent(item.id)}/${verb}`, { method: "POST", body: { note: note.value } }); await again(); } catch (error) { said.textContent = error.message; }
  };
  const reveal = async () => {
    try {
      const whole = await ask(`/admin/review/${encodeURIComponent(item.id)}?reveal=true`);
      texts.replaceChildren(...(whole.texts ?? []).map((text) => el("pre", { class: "text", tabindex: "0" }, text)));
    } catch (error) { said.textContent = error.message; }
  };
  const known = ["id", "status", "object", "texts", "released"];
  return el("section", { class: "panel", "aria-label": `Review ${item.id}` },
    el("header", {}, el("h2", {}, item.reason || item.kind || "Held for review"), chip(item.status, "warn")),
    el("div", { class: "stack" }, facts(Object.entries(item).filter(([k, v]) => !known.includes(k) && typeof v !== "object").map(([k, v]) => [NAMES[k] ?? k.replace(/_/g, " "), k.endsWith("_s") && v > 1e9 ? when(v) : v])), texts,
      el("div", {}, el("label", { for: `note-${item.id}` }, "Note"), note),
      el("div", { class: "row" }, el("button", { type: "button", on: { click: reveal } }, "Read the text"), el("button", { class: "main", type: "button", on: { click: decide("approve") } }, "Approve"), el("button", { class: "danger", type: "button", on: { click: decide("deny") } }, "Deny"), said)));
}

export async function page({ signal }) {
  const body = el("div", { class: "grid two" });
  const refresh = async () => {
    const found = await pending(signal);
    if (!found) body.replaceChildren(panel("Reviews", null, el("p", { class: "empty" }, "Reviews are switched off on this gateway.")));
    else body.replaceChildren(...(found.data.length ? found.data.map((item) => card(item, refresh)) : [panel("Nothing waits", null, el("p", { class: "empty" }, "What a rail escalates will be held here until a person decides."))]));
  };
  await refresh();
  return [el("div", { class: "head" }, el("h1", {}, "Reviews"), el("p", {}, "what rails have escalated; the text is shown only when you ask, and that is logged")), body];
}
