import { Failure, ask } from "../api.js";
import { bars, count, el, panel, percent, table } from "../dom.js";

function cachePanel(name, stats) {
  const exact = stats.exact_hits_total ?? 0, near = stats.semantic_hits_total ?? 0, missed = stats.misses_total ?? 0, all = exact + near + missed;
  return panel(`Cache "${name}"`, all ? `${percent((exact + near) / all)} of ${count(all)} look-ups were hits` : "no look-up yet", el("div", { class: "stack" },
    bars([["exact hits", exact], ["hits by meaning", near], ["misses", missed]], count),
    el("p", { class: "note" }, `${count(stats.saved_tokens_total ?? 0)} tokens saved, ${count(stats.stored_total ?? 0)} answers stored, ${count(stats.false_hit_reports_total ?? 0)} false hits reported`)));
}

function usageRow(line) {
  return el("tr", {}, el("td", {}, line.key_id || "no key"), el("td", {}, line.team || "–"), el("td", {}, line.feature || "–"), el("td", {}, line.model),
    el("td", { class: "number" }, count(line.requests)), el("td", { class: "number" }, count(line.prompt_tokens)), el("td", { class: "number" }, count(line.completion_tokens)),
    el("td", { class: "number" }, line.cost === undefined ? "–" : `${Number(line.cost).toFixed(4)} ${line.currency ?? ""}`));
}

async function ledger(signal) {
  try { return (await ask("/admin/usage", { signal })).data; } catch (error) { if (error instanceof Failure && error.status === 404) return null; throw error; }
}

export async function page({ signal }) {
  const [now, lines] = await Promise.all([ask("/admin/console/overview", { signal }), ledger(signal)]);
  const caches = Object.entries(now.caches);
  return [el("div", { class: "head" }, el("h1", {}, "Cache and cost"), el("p", {}, "what was saved, and what was used by whom")),
    el("div", { class: "grid two" }, caches.length ? caches.map(([name, stats]) => cachePanel(name, stats)) : panel("Cache", null, el("p", { class: "empty" }, "No cache is configured.")),
      panel("Prefix cache of the engine", "prompt tokens that need not be computed again", bars([["asked", now.engine.prefix_cache_asked_tokens_total ?? 0], ["reused", now.engine.prefix_cache_hit_tokens_total ?? 0]], count))),
    panel("Tokens and cost", "this month, by key, team, feature and model",
      lines ? table("Usage", [["Key"], ["Team"], ["Feature"], ["Model"], ["Requests", "number"], ["Prompt", "number"], ["Answer", "number"], ["Cost", "number"]], lines.map(usageRow), "Nothing was used yet.") : el("p", { class: "empty" }, "This gateway keeps no books."))];
}
