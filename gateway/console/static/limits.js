// The limits of a key or a team: read, written as words, asked for in a form. An empty field is no limit.
import { el, count } from "./dom.js";
import { labelled, textInput } from "./forms.js";

const LIMITS = [["requests_per_minute", "Requests a minute", "1"], ["tokens_per_minute", "Tokens a minute", "1"], ["concurrency", "At the same time", "1"], ["budget_day", "Budget a day", "any"], ["budget_month", "Budget a month", "any"]];

export function limitFields(prefix, now = {}) {
  return el("div", { class: "fields" }, LIMITS.map(([name, title, step]) =>
    labelled(title, textInput(`${prefix}-${name}`, { name, type: "number", min: "0", step, value: now[name] ?? null, placeholder: "no limit", inputmode: "decimal" }))));
}

export function limitsOf(values) {
  const found = {};
  for (const [name] of LIMITS) if ((values[name] ?? "") !== "") found[name] = Number(values[name]);
  return found;
}

export function limitWords(limits) {
  const words = [];
  if (limits.requests_per_minute !== undefined) words.push(`${count(limits.requests_per_minute)} requests/min`);
  if (limits.tokens_per_minute !== undefined) words.push(`${count(limits.tokens_per_minute)} tokens/min`);
  if (limits.concurrency !== undefined) words.push(`${limits.concurrency} at once`);
  return words.join(", ") || "no rate limit";
}
