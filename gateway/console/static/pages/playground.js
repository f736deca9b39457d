import { ask, events, key } from "../api.js";
import { asCurl, asPythonClient, asTypeScript, bodyOf } from "../copies.js";
import { el, facts, ms, panel, plural } from "../dom.js";
import { choice, copyButton, labelled, textInput } from "../forms.js";
import { compact } from "../raw_json.js";
import { schemaLint } from "../schema_lint.js";
import { table } from "../tables.js";
import { tokenView } from "../tokens.js";

const PROMPT = "Invoice TM-40917 of 14 March 2026 from Tidewater Marine Supply for Kestrel Boatworks.\nThe total is 1,284.50 EUR and it is not paid.";
const SCHEMA = { type: "object", properties: { invoice_number: { type: "string" }, supplier: { type: "string" }, customer: { type: "string" }, issue_date: { type: "string", format: "date" }, total: { type: "number" }, currency: { enum: ["EUR", "USD", "GBP"] }, paid: { type: "boolean" } },
  required: ["invoice_number", "supplier", "customer", "issue_date", "total", "currency", "paid"], additionalProperties: false };
const TOOLS = [{ type: "function", function: { name: "get_weather", description: "The weather of a town now.", parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"], additionalProperties: false } } }];
const SAMPLING = [["temperature", "Temperature", "0", "any"], ["top_p", "Top p", "0", "any"], ["top_k", "Top k", "0", "1"], ["min_p", "Min p", "0", "any"], ["max_tokens", "Most tokens", "1", "1"], ["seed", "Seed", null, "1"], ["presence_penalty", "Presence penalty", "-2", "any"], ["frequency_penalty", "Frequency penalty", "-2", "any"]];
const FREE_TOKENS = "256";
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/; // a field for numbers takes `.5` and `01` too
const COPIES = [["curl", asCurl], ["Python", asPythonClient], ["TypeScript", asTypeScript]];

class WrongInput extends Error {
  constructor(message, control) {
    super(message);
    this.control = control;
  }
}

function jsonOf(control, what, isRight) {
  if (!control.value.trim()) return null;
  let raw;
  try { raw = compact(control.value); } catch (error) { throw new WrongInput(`${what} not JSON: ${error.message}`, control); }
  if (!isRight(JSON.parse(raw))) throw new WrongInput(`${what} not what is expected here.`, control);
  return raw;
}

function controls(models) {
  const area = (id, rows, value = "") => { const made = el("textarea", { id, rows: String(rows), spellcheck: "false" }); made.value = value; return made; };
  return {
    model: choice("model", models.map((m) => [m.name, m.name])), system: area("system", 2), prompt: area("prompt", 5, PROMPT), schema: area("schema", 15, JSON.stringify(SCHEMA, null, 2)),
    tools: area("tools", 6), toolChoice: choice("tool_choice", [["", "the model decides"], ["required", "it must call one"], ["none", "it may call none"]], ""), stop: area("stop", 2),
    sampling: SAMPLING.map(([name, title, min, step]) => [name, title, textInput(name, { type: "number", min, step, inputmode: "decimal", placeholder: "default" })]), cache: el("input", { type: "checkbox", id: "cache" }),
  };
}

// The request as [name, JSON text], in order. Raises `WrongInput` that names the control.
function fieldsOf(c) {
  const messages = [...(c.system.value.trim() ? [{ role: "system", content: c.system.value }] : []), { role: "user", content: c.prompt.value }];
  const shape = jsonOf(c.schema, "The schema is", () => true), tools = jsonOf(c.tools, "The list of tools is", (found) => Array.isArray(found) && found.length > 0);
  const fields = [["model", JSON.stringify(c.model.value)], ["messages", JSON.stringify(messages)]];
  for (const [name, title, control] of c.sampling) {
    if (control.validity.badInput) throw new WrongInput(`${title} is no number.`, control);
    if (control.value !== "") fields.push([name, JSON_NUMBER.test(control.value) ? control.value : String(Number(control.value))]);
  }
  const stop = c.stop.value.split("\n").filter((line) => line !== "");
  if (stop.length) fields.push(["stop", JSON.stringify(stop)]);
  if (tools) fields.push(["tools", tools]);
  if (tools && c.toolChoice.value) fields.push(["tool_choice", JSON.stringify(c.toolChoice.value)]);
  if (shape) fields.push(["response_format", `{"type":"json_schema","json_schema":{"name":"answer","schema":${shape}}}`]);
  if (!shape && !fields.some(([name]) => name === "max_tokens")) fields.push(["max_tokens", FREE_TOKENS]);
  return fields;
}

export async function page({ signal }) {
  const { models } = await ask("/admin/console/overview", { signal });
  const c = controls(models), lint = schemaLint(c.schema, signal), copies = copiesPanel(c);
  const send = el("button", { class: "main", type: "submit" }, "Send"), stop = el("button", { type: "button", disabled: true }, "Stop");
  const answer = el("pre", { class: "text answer", role: "log", "aria-label": "Answer" }), status = el("p", { role: "status", class: "note" }, "The answer streams here as the rails let it go.");
  const below = el("div", { class: "grid" }), beside = el("div", { class: "grid" });
  let running = null;

  async function ran(event) {
    event.preventDefault();
    let fields;
    try { fields = fieldsOf(c); } catch (error) { status.textContent = error.message; error.control?.closest("details")?.setAttribute("open", ""); error.control?.focus(); return; }
    running = new AbortController();
    send.disabled = true; stop.disabled = false;
    answer.textContent = ""; answer.classList.add("live"); below.replaceChildren(); beside.replaceChildren();
    const began = performance.now(), extra = [["stream", "true"], ["stream_options", '{"include_usage":true}'], ["sluicegate", JSON.stringify({ explain: true, cache: c.cache.checked })]];
    let first = null, ended = "", pieces = 0, call = -1;
    const put = (text) => { first ??= performance.now() - began; pieces++; answer.append(text); status.textContent = `streaming, ${pieces} pieces, first after ${ms(first)}`; };
    try {
      for await (const data of events("/v1/chat/completions", { method: "POST", raw: bodyOf([...fields, ...extra]), signal: AbortSignal.any([running.signal, signal]) })) {
        if (data === "[DONE]") break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const choice = chunk.choices[0];
        if (choice?.delta.content) put(choice.delta.content);
        for (const part of choice?.delta.tool_calls ?? []) {
          if (part.index !== call) { put(`${answer.textContent ? "\n" : ""}calls ${part.function?.name ?? ""} with `); call = part.index; }
          if (part.function?.arguments) put(part.function.arguments);
        }
        if (choice?.delta.refusal) ended = choice.delta.refusal;
        if (choice?.finish_reason) ended ||= choice.finish_reason;
        if (chunk.sluicegate?.stages) explained(chunk.sluicegate, chunk.usage);
      }
      status.textContent = `${ended || "ended"} after ${ms(performance.now() - began)}, first text after ${ms(first)}`;
    } catch (error) {
      status.textContent = running.signal.aborted ? "Stopped." : `The gateway refused: ${error.message}`;
    } finally {
      answer.classList.remove("live"); send.disabled = false; stop.disabled = true;
    }
  }

  function explained(story, usage) {
    const e = story.engine;
    if (story.tokens) beside.replaceChildren(panel("Tokens of the answer", null, tokenView(story.tokens)));
    else if (story.tokens_withheld) beside.replaceChildren(panel("Tokens of the answer", null, el("p", { class: "empty" }, `Withheld: ${story.tokens_withheld}.`)));
    below.replaceChildren(...[
      panel("What each stage decided", e ? `queue ${ms(e.queue_ms)}, prefill ${ms(e.prefill_ms)}, decode ${ms(e.decode_ms)}, masks ${ms(e.mask_ms)}` : "answered without the engine", stagesTable(story.stages)),
      usage ? panel("Usage", null, facts([["Prompt", `${usage.prompt_tokens} ${plural(usage.prompt_tokens, "token")}, ${usage.prompt_tokens_details?.cached_tokens ?? 0} reused`], ["Answer", `${usage.completion_tokens} ${plural(usage.completion_tokens, "token")}`]])) : null].filter(Boolean));
  }

  stop.addEventListener("click", () => running?.abort());
  const form = el("form", { class: "stack", novalidate: true, on: { submit: ran, input: (event) => { copies.changed(); if (event.target === c.schema) lint.changed(); }, change: () => copies.changed() } },
    labelled("Model", c.model), el("details", {}, el("summary", {}, "System message"), labelled("System message", c.system)), labelled("Prompt", c.prompt),
    labelled("JSON schema of the answer", c.schema, "Leave it empty for free text."), lint.shown,
    el("details", {}, el("summary", {}, "Sampling"), el("div", { class: "fields" }, c.sampling.map(([, title, control]) => labelled(title, control)), el("div", { class: "wide" }, labelled("Stop at", c.stop, "a line each")))),
    el("details", {}, el("summary", {}, "Tools"), el("div", { class: "stack" }, labelled("Tools", c.tools, "a JSON list, as a chat completion has it"), el("div", { class: "row" }, el("button", { type: "button", on: { click: () => { c.tools.value = JSON.stringify(TOOLS, null, 2); c.schema.value = ""; lint.changed(); copies.changed(); } } }, "Put an example in")), labelled("Calls", c.toolChoice))),
    el("div", { class: "row" }, send, stop, el("label", { class: "check" }, c.cache, "may come from the cache")));
  lint.now();
  copies.changed();
  return [el("div", { class: "head" }, el("h1", {}, "Playground"), el("p", {}, "a real request with your admin key, through every rail")),
    el("div", { class: "grid wide-left" }, panel("Request", null, form), el("div", { class: "grid" }, panel("Answer", null, el("div", { class: "stack" }, answer, status)), beside, copies.node)), below];
}

function stagesTable(stages) {
  const rows = stages.map((s) => el("tr", {}, el("td", {}, s.slot), el("td", { class: "breaks" }, s.stage), el("td", { class: "breaks" }, s.outcome), el("td", { class: "number" }, ms(s.at_ms)), el("td", { class: "number" }, ms(s.ms))));
  return table("What each stage decided", [["Slot"], ["Stage"], ["Decided"], ["At", "number"], ["Took", "number"]], rows, "");
}

function copiesPanel(c) {
  const shown = el("pre", { class: "text code", id: "copy", tabindex: "0", role: "region", "aria-label": "The request as code" });
  let at = 0;
  const buttons = COPIES.map(([name], i) => el("button", { type: "button", "aria-pressed": String(i === at), on: { click: () => { at = i; buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === at))); changed(); } } }, name));
  function changed() {
    try { shown.textContent = COPIES[at][1](fieldsOf(c), location.origin, Boolean(key.get())); } catch (error) { shown.textContent = error.message; }
  }
  const node = panel("Copy as", key.get() ? "the key is taken from SLUICEGATE_API_KEY, and never part of it" : null, el("div", { class: "stack" }, el("div", { class: "row" }, el("div", { class: "tabs", role: "group", "aria-label": "Language" }, buttons), copyButton("Copy", () => shown.textContent)), shown));
  return { node, changed };
}
