import { Failure, ask } from "../api.js";
import { columns, columnsTable } from "../columns.js";
import { chip, count, el, ms, panel, percent, plural } from "../dom.js";
import { choice, labelled, outcome, sure } from "../forms.js";
import { filterBar, keepAddress } from "../list.js";
import { cards } from "../tables.js";

const SLOTS = { screen: "input", moderate: "output" };
const ACTIONS = ["pass", "redact", "escalate", "block", "failed", "shadow"];
const WORST = { pass: 0, redact: 1, escalate: 2, block: 3, failed: 4 };
const CHIPS = { pass: "good", redact: "warn", escalate: "info", block: "bad", failed: "bad" };
const FILTERS = (rails) => [{ name: "last", label: "Time", standard: "86400", options: [["3600", "Last hour"], ["21600", "Last 6 hours"], ["86400", "Last 24 hours"], ["604800", "Last 7 days"]] }, { name: "by", label: "Columns by", standard: "outcome", options: [["outcome", "outcome"], ["rail", "rail"], ["category", "category"]] }, { name: "rail", label: "Rail", options: [["", "All"], ...[...new Set(rails)].map((name) => [name, name])] }];

const kindOf = (outcome) => outcome.startsWith("shadow") ? "shadow" : outcome.startsWith("failed") ? "failed" : ACTIONS.includes(outcome) ? outcome : "failed";

export async function page({ signal, params }) {
  const listed = await ask("/admin/rails", { signal }), body = el("div", { class: "grid" }), alarms = el("div", {}), said = outcome();
  const draw = async (set) => {
    const last = Number(set.get("last") ?? 86400), told = await ask(`/admin/rails/history?last=${Number.isFinite(last) ? last : 86400}&slices=60`, { signal }), wanted = set.get("rail") ?? "", by = PARTS[set.get("by")] ? set.get("by") : "outcome";
    const keep = (found) => !wanted || found[1] === wanted;
    body.replaceChildren(el("div", { class: "grid two" }, verdictsPanel(told, last, by, keep), categoriesPanel(told.categories.filter(keep))), railsPanel(listed.data.filter((rail) => !wanted || rail.rail === wanted), told.verdicts, listed.policies));
  };
  const refreshAlarms = async () => alarms.replaceChildren(await alarmsPanel(signal, async (report) => {
    if (!(await sure("Remove the report?", "Its text leaves the set of texts that must not be flagged.", "Remove"))) return;
    if (await said.attempt(async () => { await ask(`/v1/safety/false_positives/${encodeURIComponent(report.id)}`, { method: "DELETE" }); return "The report is removed."; })) await refreshAlarms();
  }));
  await Promise.all([draw(params), refreshAlarms()]);
  const bar = filterBar(FILTERS(listed.data.map((rail) => rail.rail)), params, (set) => { keepAddress("rails", set); draw(set).catch((error) => said.tell(error.message, true)); });
  return [el("div", { class: "head" }, el("h1", {}, "Rails"), el("p", {}, "what they find, what they let pass, and what they would make of a text")), tryPanel(listed.policies, signal), bar, body, said.line, alarms];
}

// --- over time ------------------------------------------------------------------------------------------------------

const shadowed = "would have acted (shadow)";
// What a column is made of: [name, count] of one slice.
const PARTS = {
  outcome: (one, keep) => one.verdicts.filter(keep).map(([, , outcome, n]) => [kindOf(outcome), n]),
  rail: (one, keep) => one.verdicts.filter(keep).filter(([, , outcome]) => outcome !== "pass").map(([, rail, , n]) => [rail, n]),
  category: (one, keep) => one.categories.filter(keep).map(([, , category, , n]) => [category, n]),
};
const HUES = 5;

// [class, text] by name: outcomes have colours of their own, else the most frequent names get one each and all others share one.
function huesOf(slices, by, keep) {
  if (by === "outcome") return new Map(ACTIONS.map((action) => [action, [action, action === "shadow" ? shadowed : action]]));
  const sums = new Map();
  for (const one of slices) for (const [name, n] of PARTS[by](one, keep)) sums.set(name, (sums.get(name) ?? 0) + n);
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)), others = `${names.length - HUES} others`;
  return new Map(names.map((name, at) => [name, at < HUES ? [`c${at}`, name] : [`c${HUES}`, others]]));
}

function slotsOf(told, last, by, keep, hues) {
  const wide = told.slice_s, first = Math.floor((told.now_s - last) / wide + 1) * wide, found = new Map(told.slices.map((one) => [one.at_s, one])), slots = [];
  const short = last <= 86400 ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  for (let at = first; at <= told.now_s; at += wide) {
    const sums = new Map();
    for (const [name, n] of found.has(at) ? PARTS[by](found.get(at), keep) : []) sums.set(hues.get(name)[0], (sums.get(hues.get(name)[0]) ?? 0) + n);
    const kinds = new Map([...hues.values()]);
    slots.push({ name: new Date(at * 1000).toLocaleString([], { ...short, hour12: false }), parts: [...kinds].filter(([kind]) => sums.has(kind)).map(([kind, text]) => [kind, text, sums.get(kind)]) });
  }
  return slots;
}

function verdictsPanel(told, last, by, keep) {
  const hues = huesOf(told.slices, by, keep), slots = slotsOf(told, last, by, keep, hues), kinds = new Map([...hues.values()]), label = { outcome: "Verdicts of rails", rail: "Rails that found something", category: "What rails found" }[by];
  return panel(by === "outcome" ? "Verdicts over time" : `${label}, over time`, `each column ${told.slice_s < 3600 ? `${told.slice_s / 60} ${plural(told.slice_s / 60, "minute")}` : `${(told.slice_s / 3600).toFixed(1)} hours`}; a week is kept${told.survives ? "" : ", in memory"}`, columns({ label, slots, format: count }),
    el("p", { class: "kinds" }, [...kinds].map(([kind, text]) => el("span", {}, el("span", { class: `kind ${kind}` }), text))), columnsTable(label, slots, count));
}

function categoriesPanel(found) {
  const sums = new Map();
  for (const [slot, rail, category, outcome, n] of found) {
    const key = JSON.stringify([slot, rail, category]), sum = sums.get(key) ?? { whole: 0, parts: {} };
    sum.whole += n;
    sum.parts[outcome] = (sum.parts[outcome] ?? 0) + n;
    sums.set(key, sum);
  }
  const rows = [...sums].sort((a, b) => b[1].whole - a[1].whole).map(([key, sum]) => {
    const [slot, rail, category] = JSON.parse(key);
    return el("tr", {}, el("td", { class: "breaks" }, category), el("td", { class: "breaks" }, rail), el("td", { class: "minor" }, SLOTS[slot]), el("td", {}, Object.entries(sum.parts).map(([outcome, n]) => [chip(`${outcome} ${count(n)}`, outcome.startsWith("shadow") ? "" : CHIPS[kindOf(outcome)]), " "])), el("td", { class: "number" }, count(sum.whole)));
  });
  return panel("What was found", "requests by category, in the same time", cards("Categories", [["Category"], ["Rail"], ["Reads", "minor"], ["Outcome"], ["Requests", "number"]], rows, "No rail found anything in this time."));
}

function railsPanel(rails, verdicts, policies) {
  const rows = rails.map((rail) => {
    const sums = {}, would = {};
    for (const [slot, name, outcome, n] of verdicts) {
      if (slot !== rail.slot || name !== rail.rail) continue;
      if (outcome.startsWith("shadow ")) would[outcome.slice(7)] = (would[outcome.slice(7)] ?? 0) + n;
      else sums[kindOf(outcome)] = (sums[kindOf(outcome)] ?? 0) + n;
    }
    const all = [...Object.values(sums), ...Object.values(would)].reduce((whole, n) => whole + n, 0), acted = all - (sums.pass ?? 0) - Object.values(would).reduce((whole, n) => whole + n, 0);
    const shadowed = Object.entries(would).filter(([action]) => action !== "pass").reduce((whole, [, n]) => whole + n, 0), others = policies.slice(1).filter((policy) => rail.modes[policy] !== rail.mode);
    return el("tr", {}, el("td", { class: "breaks" }, el("strong", {}, rail.rail), rail.out_of_the_way ? [" ", chip("out of the way after failures", "bad")] : null), el("td", {}, SLOTS[rail.slot]),
      el("td", {}, chip(rail.mode, rail.mode === "enforce" ? "good" : "warn"), others.map((policy) => [" ", chip(`${rail.modes[policy]} under ${policy}`)]), rail.failure_mode === "open" ? [" ", chip("fails open", "warn")] : null),
      el("td", { class: "number" }, count(all)), el("td", { class: "number" }, all ? `${count(acted)} (${percent(acted / all)})` : "–"), el("td", { class: "number" }, shadowed ? `${count(shadowed)} (${percent(shadowed / all)})` : "–"),
      el("td", { class: "number" }, count(sums.failed ?? 0)), el("td", { class: "mono minor" }, rail.version ?? "–"));
  });
  const head = [["Rail"], ["Reads"], ["Acts"], ["Asked", "number"], ["Acted", "number"], ["In shadow", "number"], ["Failed", "number"], ["Version", "minor"]];
  return panel("Active and in shadow", "in the same time; a rail in shadow decides and does nothing", cards("Rails", head, rows, "No rail is configured ([pipeline] screen and moderate)."));
}

// --- false alarms ---------------------------------------------------------------------------------------------------

async function alarmsPanel(signal, remove) {
  let found;
  try { found = (await ask("/v1/safety/false_positives?limit=500", { signal })).data; } catch (error) {
    if (!(error instanceof Failure) || error.status === 401) throw error;
    return panel("Reported false alarms", null, el("p", { class: "empty" }, error.status === 404 ? "Reviews are switched off on this gateway, and reports with them." : error.message));
  }
  const sums = new Map();
  for (const report of found) sums.set(report.rail || "no rail named", (sums.get(report.rail || "no rail named") ?? 0) + 1);
  const rows = [...found].reverse().map((report) => el("tr", {}, el("td", {}, new Date(report.created_s * 1000).toLocaleString([], { hour12: false })), el("td", { class: "breaks" }, report.rail || "–"), el("td", { class: "breaks minor" }, report.tenant),
    el("td", { class: "breaks" }, el("details", {}, el("summary", {}, report.note || "Read the text"), el("pre", { class: "text" }, report.text))), el("td", {}, el("button", { type: "button", "aria-label": `Remove the report ${report.id}`, on: { click: () => remove(report) } }, "Remove"))));
  return panel("Reported false alarms", found.length ? [...sums].map(([rail, n]) => `${rail}: ${n}`).join(", ") : null, cards("Reported false alarms", [["Reported"], ["Rail"], ["Tenant", "minor"], ["Note and text"], ["Change"]], rows, "Nobody has reported one. Callers do with POST /v1/safety/false_positives; `sluicegate redteam --regressions` tries them."));
}

// --- a text on all rails --------------------------------------------------------------------------------------------

function tryPanel(policies, signal) {
  const text = el("textarea", { id: "try-text", rows: "5", required: true, spellcheck: "false" }), readAs = choice("try-as", [["user", "words of a user"], ["document", "a document or a tool's result"]], "user"), policy = choice("try-policy", policies.map((name) => [name, name]), policies[0]);
  const said = outcome(), result = el("div", { class: "stack", "aria-live": "polite" });
  const form = el("form", { class: "stack", on: { submit: async (event) => {
    event.preventDefault();
    const given = text.value;
    await said.attempt(async () => {
      const told = await ask("/admin/rails/try", { method: "POST", body: { text: given, read_as: readAs.value, policy: policy.value }, signal });
      result.replaceChildren(...triedNodes(given, told.data));
      const acts = told.data.filter((one) => one.action !== "pass" && one.mode === "enforce").length;
      return told.data.length ? `${acts} of ${told.data.length} rails would act, asked in ${ms(told.seconds * 1000)}. Nothing of this is kept or counted.` : "No rail is configured.";
    });
  } } }, labelled("Text", text), el("div", { class: "fields" }, labelled("Read as", readAs), labelled("Under the policy", policy)), el("div", { class: "row" }, el("button", { class: "main", type: "submit" }, "Try on all rails"), said.line));
  return panel("Try a text", "input rails read it as a request, output rails as an answer", el("div", { class: "stack" }, form, result));
}

function triedNodes(text, trials) {
  const rows = trials.map((one) => el("tr", {}, el("td", { class: "breaks" }, el("strong", {}, one.rail)), el("td", {}, SLOTS[one.slot]), el("td", {}, chip(one.action, CHIPS[one.action]), one.mode === "enforce" ? null : [" ", chip(one.mode)]),
    el("td", { class: "breaks" }, one.reason || "–"), el("td", { class: "number" }, one.score === null ? "–" : one.score.toFixed(3)), el("td", { class: "number" }, one.action === "pass" ? "–" : one.places.length || "the whole"), el("td", { class: "number" }, ms(one.seconds * 1000))));
  return [marked(text, trials), cards("What each rail would do", [["Rail"], ["Reads"], ["Would"], ["Why"], ["Score", "number"], ["Places", "number"], ["Took", "number"]], rows, "No rail is configured.")];
}

// Places count characters as the gateway does: code points, not the units of JavaScript's strings.
export function segmentsOf(text, trials) {
  const points = [...text], places = trials.filter((one) => one.mode !== "off").flatMap((one) => one.places.map((place) => ({ ...place, one })));
  const edges = [...new Set([0, points.length, ...places.flatMap((place) => [place.start, place.end])])].sort((a, b) => a - b);
  return edges.slice(0, -1).map((start, at) => ({ text: points.slice(start, edges[at + 1]).join(""), over: places.filter((place) => place.start <= start && place.end >= edges[at + 1]) }));
}

function marked(text, trials) {
  return el("div", { class: "tried", role: "group", "aria-label": "The text, with what rails found marked" }, segmentsOf(text, trials).map(({ text: part, over }) => {
    if (!over.length) return part;
    const worst = over.reduce((worse, place) => (WORST[place.one.action] > WORST[worse.one.action] ? place : worse));
    const told = [...new Set(over.map((place) => `${place.one.rail} (${SLOTS[place.one.slot]}): ${place.label}, ${place.one.mode === "enforce" ? "" : `${place.one.mode}, would `}${place.one.action}`))].join("; ");
    return el("mark", { class: `${worst.one.action} ${over.every((place) => place.one.mode === "shadow") ? "shadow" : ""}`, title: told }, part, el("span", { class: "hidden" }, ` [${told}] `));
  }));
}
