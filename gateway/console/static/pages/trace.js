import { address } from "../address.js";
import { ask } from "../api.js";
import { count, dated, el, facts, ms, panel, plural } from "../dom.js";
import { feedbackPanel } from "../feedback.js";
import { ENDINGS, ended, money } from "../outcome.js";
import { tokenView } from "../tokens.js";
import { waterfall } from "../waterfall.js";

const shown = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" && value !== null ? JSON.stringify(value) : value);
const NAMES = { "sluicegate.stage.outcome": "Outcome", "http.response.status_code": "Status", "error.type": "Error", "server.address": "Server", "server.port": "Port", "sluicegate.try.outcome": "Try ended", "sluicegate.try.said": "The server said", "sluicegate.guard.verdict": "Verdict", "sluicegate.guard.reason": "Reason" };

function spanFacts(span) {
  return [facts([["Span", span.name], ["Begins", ms(span.at_ms)], ["Takes", ms(span.ms)], ...Object.entries(span.attributes).map(([k, v]) => [NAMES[k] ?? k, shown(v)])]),
    span.events.length ? facts(span.events.map((e) => [e.name, `${ms(e.at_ms)} ${Object.entries(e.attributes).map(([k, v]) => `${k.split(".").pop()} ${typeof v === "number" ? +v.toFixed(4) : v}`).join(", ")}`])) : null].filter(Boolean);
}

// What went wrong, in the words that the caller was told, above everything else.
function failure(found) {
  if (found.outcome === "answered") return null;
  const word = { refused: "A rail refused it", rejected: "The caller has to mend it", failed: "It failed here", left: "The caller left" }[found.outcome];
  const acted = found.verdicts.map(([slot, rail, verdict]) => `${rail} (${slot}): ${verdict}`).join(", ");
  const said = found.spans.map((span) => span.attributes["sluicegate.try.said"]).filter(Boolean).at(-1);
  return el("section", { class: `notice ${found.outcome === "failed" ? "bad" : ""} said`, "aria-label": "What went wrong" },
    el("p", {}, el("strong", {}, `${word}: ${found.ended.replaceAll("_", " ")}${found.status === 200 ? "" : `, status ${found.status}`}`)),
    found.error ? el("p", {}, found.error.message) : null,
    found.error?.cause ? el("p", {}, `Cause, which the caller is not told: ${found.error.cause}`) : null,
    said ? el("p", {}, `The server said: ${said}`) : null,
    acted ? el("p", {}, `Rails that acted: ${acted}.`) : null,
    found.review ? el("p", {}, "A person has to look: ", el("a", { href: "#/reviews" }, "open the reviews")) : null);
}

function tiles(found) {
  const e = found.engine ?? {};
  const entries = [["Whole", ms(found.ms), found.model], ["First text", ms(found.first_ms), "after rails"], ["Queue", ms(e.queue_ms), "before the engine"],
    ["Prefill", ms(e.prefill_ms), `${count(found.prompt_tokens)} ${plural(found.prompt_tokens, "token")}, ${count(found.cached_tokens)} reused`], ["Decode", ms(e.decode_ms), `${count(e.tokens ?? found.completion_tokens)} ${plural(e.tokens ?? found.completion_tokens, "token")}, ${count(e.forced_tokens ?? 0)} forced`],
    ["Masks", ms(e.mask_ms), e.drafted_tokens ? `${e.accepted_tokens} of ${e.drafted_tokens} guesses right` : "no guesses"]];
  return el("dl", { class: "tiles" }, entries.map(([name, value, sub]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "sub" }, sub ?? ""))));
}

const linked = (name, value, label = value) => (value ? el("a", { href: address("requests", { [name]: value }) }, label) : null);

function requestPanel(found) {
  return panel("Request", null, facts([
    ["Outcome", linked("outcome", found.outcome, ENDINGS[found.outcome])], ["Route", linked("route", found.route)], ["Feature", linked("feature", found.feature)],
    ["Key", linked("key", found.key)], ["Tenant", found.tenant], ["Team", found.team], ["Model", linked("model", found.model)], ["Model version", found.version ? el("code", {}, found.version) : null],
    ["Cost", found.cost_nanos ? money(found.cost_nanos) : null], ["Tokens", `${count(found.prompt_tokens)} prompt, ${count(found.completion_tokens)} answer`],
    ["Answer", `${found.output}${found.stream ? ", streamed" : ""}`], ["Objectives", found.met === null ? "not counted" : found.met ? "kept" : "missed"],
    ["Policy", found.policy], ["Template", found.template], ["Not enforced", found.not_enforced.join("; ")],
    ["Trace", el("code", {}, found.trace)], ["Exported", found.sampled ? "yes" : "no"], ["Began", dated(found.at_s)]]));
}

const written = (value) => el("pre", { class: "text", tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2));
const folded = (title, ...inside) => el("details", {}, el("summary", {}, title), ...inside);

function askedPanel(found) {
  const asked = new Map((found.asked ?? []).map((one) => [one.what, one.text]));
  const parts = [];
  if (Object.keys(found.parameters).length) parts.push(facts(Object.entries(found.parameters).map(([k, v]) => [k, shown(v)])));
  if (found.shape) parts.push(folded(`Shape of the answer: ${found.shape.kind}`, written(asked.get(found.shape.kind) ?? found.shape.value)));
  for (const tool of found.tools) parts.push(folded(`Tool ${tool.name}`, written(asked.get(`tool ${tool.name}`) ?? tool.parameters)));
  if (!parts.length) parts.push(el("p", { class: "empty" }, "Nothing but the defaults: no sampling parameters, no schema, no tools."));
  else if (!asked.size && (found.shape || found.tools.length)) parts.push(el("p", { class: "note" }, found.messages ? "Structure only: a rail refused the request before its words were read." : "Structure only. Descriptions and values are shown where the operator opted in to content."));
  return panel("What was asked for", null, el("div", { class: "stack" }, parts));
}

function withheldPart(found) {
  if (!found.withheld) return null;
  if (!found.may_review) return el("p", { class: "note" }, "A rail withheld text here. It is open to keys with the scope review.");
  const texts = el("div", { class: "said" }), said = el("p", { class: "note", role: "status" });
  const reveal = async () => {
    try {
      const { data } = await ask(`/admin/console/requests/${encodeURIComponent(found.id)}/withheld`);
      texts.replaceChildren(...data.map((one) => el("div", {}, el("h3", {}, `${one.role}, withheld`), written(one.text))));
      said.textContent = "Reading this was logged.";
    } catch (error) { said.textContent = error.message; }
  };
  return el("div", { class: "stack" }, el("div", { class: "row" }, el("button", { type: "button", on: { click: reveal } }, "Read what was withheld"), said), texts);
}

function saidPanel(found) {
  if (!found.messages) return panel("Prompt and answer", null, el("p", { class: "empty" }, "Not kept. The operator can opt in with [telemetry] content = true; the rails then redact before anything is shown."));
  const said = [...found.messages.map((m) => [m.role, m.text]), ...found.answers.map((a) => [`answer, ${a.ended}`, a.text])];
  return panel("Prompt and answer", "after the rails", el("div", { class: "said" }, said.map(([who, text]) => el("div", {}, el("h3", {}, who), written(text))), withheldPart(found)));
}

export async function page({ signal, detail }) {
  const found = await ask(`/admin/console/requests/${encodeURIComponent(detail)}`, { signal });
  const feedback = found.outcome === "answered" ? await feedbackPanel(signal, found.id) : null;
  const side = el("div", { class: "stack", "aria-live": "polite" });
  let pressed = null;
  const choose = (span, button) => {
    pressed?.setAttribute("aria-pressed", "false");
    pressed = button;
    button.setAttribute("aria-pressed", "true");
    side.replaceChildren(...spanFacts(span));
  };
  const picture = waterfall(found, choose);
  choose(found.spans[found.focus], picture.querySelectorAll("button.wrow")[found.focus]);
  return [
    el("div", { class: "head" }, el("h1", {}, "Trace"), el("p", { class: "mono" }, found.id), ended(found), el("a", { class: "end", href: "#/requests" }, "All requests")),
    failure(found), tiles(found),
    panel("Where the time went", "choose a line to see what its stage said", picture),
    el("div", { class: "grid wide-left" }, el("div", { class: "grid" }, el("section", { class: "panel" }, el("header", {}, el("h2", {}, "What it said")), side), askedPanel(found)), requestPanel(found)),
    saidPanel(found), feedback,
    found.tokens?.length ? panel("Tokens of the answer", null, tokenView(found.tokens)) : null,
  ].filter(Boolean);
}
