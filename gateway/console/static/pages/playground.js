import { ask, events } from "../api.js";
import { el, facts, ms, panel, table } from "../dom.js";
import { tokenView } from "../tokens.js";

const PROMPT = "Invoice TM-40917 of 14 March 2026 from Tidewater Marine Supply for Kestrel Boatworks.\nThe total is 1,284.50 EUR and it is not paid.";
const SCHEMA = { type: "object", properties: { invoice_number: { type: "string" }, supplier: { type: "string" }, customer: { type: "string" }, issue_date: { type: "string", format: "date" }, total: { type: "number" }, currency: { enum: ["EUR", "USD", "GBP"] }, paid: { type: "boolean" } },
  required: ["invoice_number", "supplier", "customer", "issue_date", "total", "currency", "paid"], additionalProperties: false };

function stagesTable(stages) {
  const rows = stages.map((s) => el("tr", {}, el("td", {}, s.slot), el("td", {}, s.stage), el("td", {}, s.outcome), el("td", { class: "number" }, ms(s.at_ms)), el("td", { class: "number" }, ms(s.ms))));
  return table("What each stage decided", [["Slot"], ["Stage"], ["Decided"], ["At", "number"], ["Took", "number"]], rows, "");
}

export async function page({ signal }) {
  const { models } = await ask("/admin/console/overview", { signal });
  const model = el("select", { id: "model" }, models.map((m) => el("option", { value: m.name }, m.name)));
  const prompt = el("textarea", { id: "prompt", rows: "6", spellcheck: "false" });
  const schema = el("textarea", { id: "schema", rows: "15", spellcheck: "false", "aria-describedby": "schema-note" });
  prompt.value = PROMPT;
  schema.value = JSON.stringify(SCHEMA, null, 2);
  const cache = el("input", { type: "checkbox", id: "cache" });
  const send = el("button", { class: "main", type: "submit" }, "Send"), stop = el("button", { type: "button", disabled: true }, "Stop");
  const answer = el("pre", { class: "text answer", role: "log", "aria-label": "Answer" });
  const status = el("p", { role: "status", class: "note" }, "The answer streams here as the rails let it go.");
  const below = el("div", { class: "grid" }), beside = el("div", { class: "grid" });
  let running = null;

  async function ran(event) {
    event.preventDefault();
    let shape;
    try { shape = schema.value.trim() ? JSON.parse(schema.value) : null; } catch (error) { status.textContent = `The schema is not JSON: ${error.message}`; schema.focus(); return; }
    running = new AbortController();
    signal.addEventListener("abort", () => running?.abort());
    send.disabled = true; stop.disabled = false;
    answer.textContent = ""; answer.classList.add("live"); below.replaceChildren(); beside.replaceChildren();
    const began = performance.now();
    let first = null, ended = "", pieces = 0;
    const body = { model: model.value, stream: true, messages: [{ role: "user", content: prompt.value }], stream_options: { include_usage: true },
      sluicegate: { explain: true, cache: cache.checked }, ...(shape ? { response_format: { type: "json_schema", json_schema: { name: "answer", schema: shape } } } : { max_tokens: 256 }) };
    try {
      for await (const data of events("/v1/chat/completions", { method: "POST", body, signal: running.signal })) {
        if (data === "[DONE]") break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const choice = chunk.choices[0];
        if (choice?.delta.content) { first ??= performance.now() - began; pieces++; answer.append(choice.delta.content); status.textContent = `streaming, ${pieces} pieces, first after ${ms(first)}`; }
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
      usage ? panel("Usage", null, facts([["Prompt", `${usage.prompt_tokens} tokens, ${usage.prompt_tokens_details?.cached_tokens ?? 0} reused`], ["Answer", `${usage.completion_tokens} tokens`]])) : null].filter(Boolean));
  }

  stop.addEventListener("click", () => running?.abort());
  const form = el("form", { class: "stack", on: { submit: ran } },
    el("div", {}, el("label", { for: "model" }, "Model"), model),
    el("div", {}, el("label", { for: "prompt" }, "Prompt"), prompt),
    el("div", {}, el("label", { for: "schema" }, "JSON schema of the answer"), schema, el("p", { class: "note", id: "schema-note" }, "Leave it empty for free text.")),
    el("div", { class: "row" }, send, stop, el("label", { class: "check" }, cache, "may come from the cache")));
  return [el("div", { class: "head" }, el("h1", {}, "Playground"), el("p", {}, "a real request with your admin key, through every rail")),
    el("div", { class: "grid wide-left" }, panel("Request", null, form), el("div", { class: "grid" }, panel("Answer", null, el("div", { class: "stack" }, answer, status)), beside)), below];
}
