import { address } from "../address.js";
import { Failure, ask } from "../api.js";
import { cell, chip, count, el, facts, ms, panel, percent, plural, when } from "../dom.js";
import { outcome, sure } from "../forms.js";
import { table } from "../tables.js";

const WINDOW_S = 900;
const STATES = { well: ["well", "good"], failing: ["failing", "warn"], left_alone: ["left alone", "bad"] };

async function read(path, signal) {
  try { return (await ask(path, { signal })).data; } catch (error) { if (error instanceof Failure && error.status === 404) return []; throw error; }
}

// One word for a model: its servers first, then how its requests went.
function health(model, seen) {
  const servers = model.servers.map((s) => s.state);
  if (servers.length && servers.every((state) => state === "left_alone")) return chip("unavailable: left alone after failures", "bad");
  if (servers.includes("left_alone")) return chip("some servers left alone", "warn");
  if (servers.includes("failing")) return chip("failing", "warn");
  if (seen?.failed) return chip(`${count(seen.failed)} of ${count(seen.requests)} failed`, seen.failed * 2 > seen.requests ? "bad" : "warn");
  return chip(model.load?.waiting > 0 ? "well, requests wait" : "well", model.load?.waiting > 0 ? "warn" : "good");
}

// Requests count for the version that answered: a route, which never answers by itself, has no figure of its own.
const none = (model) => (model.route ? "–" : "0");

function servedPanel(served, figures) {
  const seen = new Map(figures.by_model.map((line) => [line.name, line]));
  const rows = served.map((m) => {
    const line = seen.get(m.name), to = (more) => address("requests", { model: m.name, last: String(WINDOW_S), ...more });
    return el("tr", {}, cell(m.name, "name"), cell(health(m, line)), cell(m.version, "mono name minor"), cell(m.route ? chip("route", "info") : chip(m.remote ? "upstream" : "in this process"), "minor roomy"),
      cell(count(m.context), "number minor roomy"), cell(m.load ? count(m.load.running) : "–", "number"), cell(m.load ? count(m.load.waiting) : "–", "number"),
      cell(line ? el("a", { href: to({}) }, count(line.requests)) : none(m), "number"), cell(line?.failed ? el("a", { href: to({ outcome: "failed" }) }, count(line.failed)) : none(m), "number"), cell(line ? ms(line.mean_ms) : "–", "number minor"));
  });
  return panel("Served now", "requests of the last 15 minutes", table("Models", [["Name"], ["Health"], ["Version", "minor"], ["Where", "minor roomy"], ["Context", "number minor roomy"], ["Running", "number"], ["Waiting", "number"], ["Requests", "number"], ["Failed", "number"], ["On average", "number minor"]], rows, "No model is loaded."));
}

function serversPanel(served) {
  const rows = served.flatMap((m) => m.servers.map((s) => {
    const [word, kind] = STATES[s.state];
    const breaker = s.state === "left_alone" ? (s.wait_s > 0 ? `open, tried again in ${ms(s.wait_s * 1000)}` : "open, the next request tries it") : "closed";
    return el("tr", {}, cell(m.name, "name"), cell(s.server, "mono name"), cell(chip(word, kind)), cell(breaker), cell(count(s.failures_in_a_row), "number"), cell(count(s.failures), "number minor"), cell(count(s.running), "number minor"));
  }));
  return rows.length ? panel("Other servers", "and their circuit breakers", table("Servers that answer for models", [["Model"], ["Server"], ["State"], ["Breaker"], ["Failures in a row", "number"], ["Since the start", "number minor"], ["Running", "number minor"]], rows, "")) : null;
}

function enginePanel(e) {
  const asked = e.prefix_cache_asked_tokens_total, drafted = e.tokens_drafted_total;
  if (e.steps_total === undefined) return null;
  return panel("Engine in this process", "since the start", facts([
    ["Blocks of the KV cache in use", percent(e.kv_cache_usage_ratio)], ["Prompt tokens that were reused", asked ? percent(e.prefix_cache_hit_tokens_total / asked) : "no prompt yet"],
    ["Rows in a step, on average", e.steps_total ? (e.batched_rows_total / e.steps_total).toFixed(1) : "–"], ["Guessed tokens that were right", drafted ? percent(e.tokens_accepted_total / drafted) : "nothing is guessed"],
    ["Sequences that had to give way", count(e.preemptions_total)]]));
}

function share(weights) {
  const sum = Object.values(weights).reduce((all, w) => all + w, 0) || 1;
  return Object.entries(weights).map(([name, w]) => `${name} ${Math.round((100 * w) / sum)} %`).join(", ");
}

function routePanel(route, figures, act) {
  const roll = () => act(`Roll ${route.name} back?`, `New requests get the weights before these: ${share(route.history.at(-2).weights)}. A rollout of ${route.name} ends with it.`, "Roll back", async () => {
    const now = await ask(`/admin/routes/${encodeURIComponent(route.name)}/rollback`, { method: "POST", body: { revision: route.revision } });
    return `${route.name} is back at ${share(now.weights)}.`;
  });
  const sum = Object.values(route.weights).reduce((all, w) => all + w, 0) || 1, least = Math.min(...Object.values(route.weights).filter((w) => w > 0));
  const seen = new Map(figures.by_model.map((line) => [line.name, line]));
  const rows = Object.entries(route.weights).map(([name, w]) => {
    const line = seen.get(name), canary = w > 0 && w === least && w * 2 < sum;
    return el("tr", {}, cell(name, "name"), cell(w > 0 ? chip(canary ? "canary" : "answers", canary ? "info" : "good") : chip("at rest")), cell(`${Math.round((100 * w) / sum)} %`, "number"),
      cell(line ? el("a", { href: address("requests", { model: name, last: String(WINDOW_S) }) }, count(line.requests)) : "0", "number"), cell(count(line?.failed ?? 0), "number"), cell(line ? ms(line.mean_ms) : "–", "number"));
  });
  const past = [...route.history].reverse().map((c) => el("tr", {}, cell(when(c.at_s), "time"), cell(c.by, "name"), cell(share(c.weights))));
  return el("section", { class: "panel" },
    el("header", {}, el("h2", {}, route.name), el("p", {}, ["requests of each version under any name", route.sticky ? `sticky by ${route.sticky}` : "", route.fallback.length ? `falls back to ${route.fallback.join(", ")}` : "", route.shadow ? `shadowed by ${route.shadow}` : ""].filter(Boolean).join("; ")),
      el("span", { class: "end" }, el("button", { type: "button", class: "danger", disabled: route.history.length < 2, on: { click: roll } }, "Roll back"))),
    el("div", { class: "stack" }, table(`Versions of ${route.name}`, [["Version"], ["State"], ["Share", "number"], ["Requests", "number"], ["Failed", "number"], ["On average", "number"]], rows, "No version."),
      past.length ? el("details", {}, el("summary", {}, "Changes, the newest in force"), table(`Changes of ${route.name}`, [["At"], ["By"], ["Shares"]], past, "")) : null));
}

const ROLLOUT = { running: "info", held: "warn", stopped: "bad", promoted: "good", superseded: "" };
const ORDERS = {
  hold: ["Hold", "It keeps its share and takes no further step until it is resumed. It may still be stopped."],
  resume: ["Resume", "It goes on to the next step as soon as that is earned."],
  promote: ["Promote", "All requests go to the canary at once, whatever was observed so far."],
  stop: ["Stop", "All requests go to the baseline at once. This pair is not tried again by itself."],
};
const mean = (arm) => (arm.n ? `${Number(arm.mean.toFixed(4))} (n = ${count(arm.n)})` : "–");
const DONE = { start: "Begun", advance: "Advanced", stop: "Stopped", promote: "Promoted", hold: "Held", resume: "Resumed", supersede: "Ended" };
// Wealth of the bettors: from 1, which says nothing, to what decides.
const evidence = ({ evidence: found, needed }) => (needed === null ? "decides nothing" : `${found < 1000 ? Number(found.toPrecision(2)) : "over 1000"} of ${Math.round(needed)}`);

function newest({ decisions, canary }) {
  const last = decisions.at(-1);
  if (!last) return null;
  return el("p", {}, `${DONE[last.action] ?? last.action} ${when(last.at_s)} by ${last.by} after ${count(last.requests)} ${plural(last.requests, "request")}: ${last.reason || "no reason was given"}${last.share ? `; ${percent(last.share)} to ${canary}` : ""}.`);
}

// A canary that advances or stops by itself: where it stands, what it waits for, and what was decided why.
function rolloutPanel(found, act) {
  const order = (verb, button, what) => act(`${button} ${found.canary}?`, what, button, async () => {
    const now = await ask(`/admin/rollouts/${encodeURIComponent(found.route)}/${verb}`, { method: "POST", body: { reason: "by the console" } });
    return `The rollout of ${found.canary}: ${now.pending ? `${verb} is under way` : now.state}.`;
  });
  const orders = { running: ["hold", "promote", "stop"], held: ["resume", "promote", "stop"] }[found.state] ?? [];
  const rows = Object.entries(found.metrics).map(([name, m]) => el("tr", {}, cell(name.replaceAll("_", " ")), cell(mean(m.canary), "number"), cell(mean(m.baseline), "number"), cell(evidence(m.worse), "number"), cell(m.fine.asked ? `${evidence(m.fine)}, by ${m.tolerance}` : "not asked", "number minor")));
  const decided = [...found.decisions].reverse().map((one) => el("tr", {}, cell(when(one.at_s), "time"), cell(one.action), cell(one.by, "name"), cell(one.reason)));
  return el("section", { class: "panel" },
    el("header", {}, el("h2", {}, `Canary ${found.canary}`), chip(found.state, ROLLOUT[found.state] ?? ""), el("p", {}, `${percent(found.share)} of ${found.route}, step ${found.step} of ${found.steps.length}; compared with ${found.baseline}`)),
    el("div", { class: "stack" }, orders.length ? el("div", { class: "row" }, orders.map((verb) => el("button", { type: "button", class: verb === "stop" ? "danger" : "", "aria-label": `${ORDERS[verb][0]}: ${found.canary}`, on: { click: () => order(verb, ...ORDERS[verb]) } }, ORDERS[verb][0]))) : null, newest(found), found.waits_for.length ? el("p", { class: "note" }, `Waits for ${found.waits_for.join(", ")}.`) : null,
      table(`Canary and baseline of ${found.route}`, [["Measure"], ["Canary", "number"], ["Baseline", "number"], ["Evidence that it is worse", "number"], ["Proof that it is not", "number minor"]], rows, "Nothing was observed yet."),
      el("p", { class: "note" }, "0 is as it should be, 1 the worst. The canary is stopped where the evidence of a measure reaches its bound, and gets all once every proof has."),
      decided.length ? el("details", {}, el("summary", {}, "Decisions, the newest first"), table(`Decisions on ${found.canary}`, [["At"], ["What"], ["By"], ["Why"]], decided, "")) : null));
}

const noRoutes = () => panel("Versions and canaries", null, el("p", { class: "empty" }, "No public name stands for versions yet. A route with weights (docs/operations.md) shows here which version answers, and the button that rolls back."));

export async function page({ signal, onTick }) {
  const body = el("div", { class: "grid" }), { line, attempt } = outcome();
  const act = async (title, what, button, done) => { if (await sure(title, what, button) && await attempt(done)) await refresh(); };
  let last = 0;
  const refresh = async () => {
    last = Date.now();
    const [served, routes, rollouts, figures] = await Promise.all([ask("/admin/console/models", { signal }), read("/admin/routes", signal), read("/admin/rollouts", signal), ask(`/admin/console/figures?from_s=${Date.now() / 1000 - WINDOW_S}`, { signal })]);
    const known = new Set(routes.map((route) => route.name)), of = (name) => rollouts.filter((found) => (known.has(found.route) ? found.route : null) === name).map((found) => rolloutPanel(found, act));
    body.replaceChildren(...[servedPanel(served.data, figures), serversPanel(served.data), ...(routes.length ? routes.flatMap((route) => [routePanel(route, figures, act), ...of(route.name)]) : [noRoutes()]), ...of(null), enginePanel(served.engine)].filter(Boolean));
  };
  await refresh();
  onTick(() => { if (!document.hidden && Date.now() - last > 3000 && !body.contains(document.activeElement) && !body.querySelector("details[open]")) refresh().catch(() => {}); });
  return [el("div", { class: "head" }, el("h1", {}, "Models"), el("p", {}, "what is served, how it is, which version answers, and the way back")), line, body];
}
