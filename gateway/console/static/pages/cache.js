import { ask } from "../api.js";
import { bars, count, dated, el, panel, percent, plural } from "../dom.js";
import { choice, labelled, outcome, sure, textInput } from "../forms.js";
import { money } from "../money.js";
import { cards, table } from "../tables.js";

const KINDS = [["", "all entries"], ["tag", "those with the tag"], ["model_version", "of a model's version"], ["template_version", "of a template's version"], ["rails", "made under the rails"]];

function cachePanel(name, stats) {
  const exact = stats.exact_hits_total ?? 0, near = stats.semantic_hits_total ?? 0, missed = stats.misses_total ?? 0, all = exact + near + missed;
  return panel(`Cache "${name}"`, all ? `${percent((exact + near) / all)} of ${count(all)} look-ups were hits` : "no look-up yet", el("div", { class: "stack" },
    bars([["exact hits", exact], ["hits by meaning", near], ["misses", missed]], count),
    el("p", { class: "note" }, `${count(stats.saved_tokens_total ?? 0)} ${plural(stats.saved_tokens_total ?? 0, "token")} saved, ${count(stats.stored_total ?? 0)} ${plural(stats.stored_total ?? 0, "answer")} stored, ${count(stats.store_evicted_total ?? stats.store_evicted ?? 0)} pushed out, ${count(stats.false_hit_reports_total ?? 0)} false hits reported`)));
}

const size = (bytes) => bytes === null ? "–" : bytes < 1e4 ? `${bytes} B` : bytes < 1e7 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(0)} MB`;

function entriesPanel(name, held, purge) {
  if (held === null) return panel(`Entries of "${name}"`, null, el("p", { class: "empty" }, "This cache cannot say whose entries it holds, or did not answer now."));
  const rows = held.map((one) => el("tr", {}, el("td", { class: "breaks" }, one.tenant), el("td", { class: "breaks" }, one.model || "all models"), el("td", { class: "number" }, count(one.entries)), el("td", { class: "number" }, size(one.bytes)),
    el("td", {}, el("button", { type: "button", class: "danger", "aria-label": `Purge the entries of ${one.tenant}`, disabled: one.tenant.startsWith("digest "), on: { click: () => purge({ tenant: one.tenant }) } }, "Purge"))));
  return panel(`Entries of "${name}"`, `${count(held.reduce((all, one) => all + one.entries, 0))} in all`, cards(`Entries of ${name}`, [["Tenant"], ["Model"], ["Entries", "number"], ["Size", "number"], ["Withdraw"]], rows, "It is empty."));
}

function savedPanel(told) {
  const rows = told.saved.map((one) => el("tr", {}, el("td", { class: "breaks" }, one.model), el("td", { class: "number" }, count(one.tokens)), el("td", { class: "number" }, money(one.cost, told.currency))));
  const whole = told.saved.reduce((all, one) => all + one.cost, 0);
  return panel("What hits saved", `${money(whole, told.currency)} since ${dated(told.since_s)}, at the prices of [accounts.prices]`, table("Saved", [["Model"], ["Tokens", "number"], ["Cost", "number"]], rows, "No hit saved anything yet, or no ledger is kept."));
}

function purgeForm(purge) {
  const tenant = textInput("purge-tenant", { maxlength: "256" }), kind = choice("purge-kind", KINDS, ""), name = textInput("purge-name", { maxlength: "256" }), everyone = el("input", { type: "checkbox", id: "purge-all" });
  const update = () => { tenant.disabled = everyone.checked; name.disabled = !kind.value; name.required = Boolean(kind.value); };
  everyone.addEventListener("change", update);
  kind.addEventListener("change", update);
  update();
  return el("form", { class: "stack", id: "purge", on: { submit: (event) => {
    event.preventDefault();
    purge({ ...(everyone.checked ? { all_tenants: true } : tenant.value.trim() ? { tenant: tenant.value.trim() } : {}), ...(kind.value ? { [kind.value]: name.value.trim() } : {}) });
  } } }, el("div", { class: "fields" }, labelled("Tenant", tenant, "your own, if empty"), labelled("What", kind), labelled("Named", name)), el("label", { class: "check" }, everyone, "of every tenant"), el("div", { class: "row" }, el("button", { class: "danger", type: "submit" }, "Purge …")));
}

function words(asked) {
  const label = KINDS.map(([kind]) => kind).find((kind) => kind && asked[kind]);
  const which = label ? `${KINDS.find(([kind]) => kind === label)[1]} "${asked[label]}"` : "all entries";
  return `${which} of ${asked.all_tenants ? "every tenant" : asked.tenant ? `tenant "${asked.tenant}"` : "your own tenant"}`;
}

export async function page({ signal }) {
  const body = el("div", { class: "grid" }), { line, attempt } = outcome();
  const purge = async (asked) => {
    if (!(await sure("Purge?", `Withdrawn: ${words(asked)}. They are answered anew from now on, at full cost, on every gateway that shares the store.`, "Purge"))) return;
    const done = await attempt(async () => {
      const { purged } = await ask("/v1/cache/purge", { method: "POST", body: asked });
      return Object.entries(purged).map(([name, n]) => `${n} ${plural(n, "entry", "entries")} of "${name}" removed`).join(", ") || "There is no cache.";
    });
    if (done) await draw();
  };
  const draw = async () => {
    const [now, told] = await Promise.all([ask("/admin/console/overview", { signal }), ask("/admin/cache/entries", { signal })]);
    const caches = Object.entries(now.caches);
    body.replaceChildren(
      el("div", { class: `grid ${caches.length % 3 === 1 ? "three" : "two"}` }, caches.length ? caches.map(([name, stats]) => cachePanel(name, stats)) : panel("Cache", null, el("p", { class: "empty" }, "No cache is configured ([pipeline] recall).")), savedPanel(told),
        panel("Prefix cache of the engine", "prompt tokens that need not be computed again", bars([["asked", now.engine.prefix_cache_asked_tokens_total ?? 0], ["reused", now.engine.prefix_cache_hit_tokens_total ?? 0]], count))),
      ...Object.entries(told.caches).map(([name, held]) => entriesPanel(name, held, purge)), ...(caches.length ? [panel("Withdraw answers", "asked once more before anything happens", purgeForm(purge))] : []));
  };
  await draw();
  return [el("div", { class: "head" }, el("h1", {}, "Cache"), el("p", {}, "what kept answers saved, whose they are, and how to withdraw them")), line, body];
}
