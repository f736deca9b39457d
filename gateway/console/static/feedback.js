// What callers said of answers: their scores and labels, and their comments where somebody asks for them.
import { address } from "./address.js";
import { Failure, ask } from "./api.js";
import { cell, el, panel, when } from "./dom.js";
import { table } from "./tables.js";

const MOST = 50;
const COLUMNS = [["At"], ["Request"], ["Caller", "minor"], ["Model", "minor"], ["Score", "number"], ["Label"], ["Comment"]];

const caller = (owner) => owner.replace(/^key /, "");

function commentOf(one) {
  if (!one.has_comment) return "–";
  if (one.comment === undefined) return "not read yet";
  return one.comment === null ? "cannot be opened under this secret" : one.comment;
}

function row(one) {
  const short = one.request_id.length > 18 ? `${one.request_id.slice(0, 18)}…` : one.request_id;
  return el("tr", {}, cell(when(one.at_s), "time"), cell(el("a", { href: address("trace", {}, one.request_id), title: one.request_id, "aria-label": `Trace of request ${one.request_id}` }, short)),
    cell(caller(one.owner), "name minor"), cell(one.version || one.model || "–", "name minor"), cell(one.score === null ? "–" : String(one.score), "number"), cell(one.label || "–", "breaks"), cell(commentOf(one), "breaks"));
}

// Of one request, or of the newest. Null where the gateway takes no feedback.
export async function feedbackPanel(signal, request = "") {
  const asked = new URLSearchParams({ limit: MOST, ...(request ? { request_id: request } : {}) });
  const read = (reveal) => ask(`/admin/feedback?${asked}${reveal ? "&reveal=true" : ""}`, { signal });
  const shown = el("div", {}), said = el("p", { class: "note", role: "status" });
  const draw = (found) => shown.replaceChildren(table("What callers said", COLUMNS, found.data.map(row), request ? "Nobody said anything of this answer." : "Nobody said anything of an answer yet."));
  let found;
  try { found = await read(false); } catch (error) {
    if (error instanceof Failure && error.status === 404) return null;
    return panel("Feedback", null, el("p", { class: "notice bad" }, `This could not be read: ${error.message}`));
  }
  draw(found);
  const reveal = el("button", { type: "button", on: { click: async () => {
    try { draw(await read(true)); said.textContent = "Reading this was logged."; } catch (error) { said.textContent = error.message; }
  } } }, "Read the comments");
  return panel("Feedback", request ? "what the caller said of it" : `of callers, the newest ${MOST}`, el("div", { class: "paged" }, shown, found.data.some((one) => one.has_comment) ? el("div", { class: "row pager" }, reveal, said) : null));
}
