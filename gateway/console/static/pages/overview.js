import { address } from "../address.js";
import { ask } from "../api.js";
import { histogram, legend, slices } from "../charts.js";
import { cell, chip, clock, count, el, ms, panel, percent, plural, when } from "../dom.js";
import { RANGES, filterBar, keepAddress, localMoment, rangeOf } from "../list.js";
import { ENDINGS, money } from "../outcome.js";
import { table } from "../tables.js";

const STANDARD = "3600", EVERY_MS = 4000;
const SERIES = ["answered", "refused", "rejected", "failed", "left"];
const COLOURS = { failed: "error" }; // of a rail, "failed" is another colour than its blocks
const seconds = (value) => ms(value * 1000);

// A figure that leads to the requests it counts.
function tile(name, value, sub, href) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, href ? el("a", { href }, value) : value), el("dd", { class: "sub" }, sub ?? ""));
}

const share = (part, whole) => (whole ? percent(part / whole) : "–");

function tiles(found, to) {
  const { outcomes, requests, latency } = found, minutes = Math.max(1, (found.until_s - found.from_s) / 60);
  const slow = (name, text) => tile(text, ms(latency[name].quantiles_ms[1]), `95 of 100; half within ${ms(latency[name].quantiles_ms[0])}`, to(name === "ms" ? { over_ms: latency.ms.quantiles_ms[1] ?? 0 } : { first_over_ms: latency.first_ms.quantiles_ms[1] ?? 0 }));
  return el("dl", { class: "tiles four", "aria-label": "In this range" },
    tile("Requests", count(requests), `${count(Math.round((10 * requests) / minutes) / 10)} a minute`, to({})),
    tile("Failed", count(outcomes.failed), `${share(outcomes.failed, requests)} of all`, to({ outcome: "failed" })),
    tile("Refused by rails", count(outcomes.refused), `${share(outcomes.refused, requests)} of all`, to({ outcome: "refused" })),
    tile("Callers' mistakes", count(outcomes.rejected), `${count(outcomes.left)} ${plural(outcomes.left, "caller")} left`, to({ outcome: "rejected" })),
    slow("first_ms", "First text within"), slow("ms", "Whole within"),
    tile("Cost", money(found.cost_nanos, found.currency), `${count(found.prompt_tokens)} ${plural(found.prompt_tokens, "token")} in, ${count(found.completion_tokens)} out`, to({})),
    tile("From the cache", share(found.cached, requests), `${count(found.cached)} ${plural(found.cached, "request")}`, to({ cached: "true" })));
}

function objectives(found, to) {
  const { latency } = found;
  const line = (text, data, filter) => el("tr", {}, cell(text), cell(el("a", { href: to(filter) }, count(data.over))), cell(data.count ? percent(1 - data.over / data.count) : "–", "number"));
  const missed = found.judged - found.met;
  return panel("Objectives", found.judged ? `${share(found.met, found.judged)} of ${count(found.judged)} ${plural(found.judged, "request")} kept all of them` : "no request yet",
    table("Service level objectives", [["Objective"], ["Missed by"], ["Kept", "number"]], [
      line(`First text within ${ms(latency.first_ms.objective_ms)}`, latency.first_ms, { first_over_ms: latency.first_ms.objective_ms }),
      line(`A token within ${ms(latency.token_ms.objective_ms)} on average`, latency.token_ms, { token_over_ms: latency.token_ms.objective_ms }),
      line(`Whole within ${ms(latency.ms.objective_ms)}`, latency.ms, { over_ms: latency.ms.objective_ms }),
      el("tr", {}, cell("All three, and no failure"), cell(el("a", { href: to({ met: "false" }) }, count(missed))), cell(share(found.met, found.judged), "number"))], ""));
}

function rails(found, to) {
  const rows = found.verdicts.filter(([, , verdict]) => verdict !== "pass").map(([slot, rail, verdict, n]) =>
    el("tr", {}, cell(rail, "name"), cell(slot === "screen" ? "prompt" : "answer"), cell(chip(verdict, verdict === "block" || verdict === "failed" ? "bad" : "warn")), cell(el("a", { href: to({ rail, verdict }) }, count(n)), "number")));
  const passed = found.verdicts.filter(([, , verdict]) => verdict === "pass").reduce((sum, [, , , n]) => sum + n, 0);
  return panel("Rails that acted", `${count(passed)} ${plural(passed, "time")} a rail let pass`, table("Verdicts of rails", [["Rail"], ["Read"], ["Verdict"], ["Requests", "number"]], rows, "No rail acted in this range."));
}

function endings(found, to) {
  const known = found.by_ended.filter((line) => !["stop", "success", "tool_calls"].includes(line.name));
  const rows = known.map((line) => el("tr", {}, cell(line.name.replaceAll("_", " "), "name"), cell(el("a", { href: to({ ended: line.name }) }, count(line.requests)), "number"), cell(when(line.last_s), "number")));
  return panel("What went wrong", "by how requests ended", table("Endings other than whole answers", [["Ended with"], ["Requests", "number"], ["Last", "number"]], rows, "Every request in this range got its whole answer."));
}

function by(found, name, title, to) {
  const rows = found[`by_${name}`].slice(0, 8).map((line) => el("tr", {}, cell(el("a", { href: to({ [name]: line.name || "-" }) }, line.name || "none"), "name"), cell(count(line.requests), "number"),
    cell(line.failed ? el("a", { href: to({ [name]: line.name || "-", outcome: "failed" }) }, count(line.failed)) : "0", "number"), cell(count(line.prompt_tokens + line.completion_tokens), "number minor"), cell(money(line.cost_nanos), "number")));
  return panel(title, null, table(title, [[title.replace("By ", "").replace(/^./, (letter) => letter.toUpperCase())], ["Requests", "number"], ["Failed", "number"], ["Tokens", "number minor"], ["Cost", "number"]], rows, "Nothing in this range."));
}

function spread(title, data, format) {
  const [half, , most] = data.quantiles_ms;
  const note = data.count ? `half within ${ms(half)}, 99 of 100 within ${ms(most)}` : "no request yet";
  return panel(title, note, histogram({ counts: data.counts, count: data.count, bounds_s: data.bounds_ms.map((b) => b / 1000), sum_s: (half ?? 0) * data.count / 1000 }, { label: title, objective: data.objective_ms / 1000, format }));
}

function drawn(found, to, model) {
  const within = (from, until) => address("requests", { ...(model ? { model } : {}), from: localMoment(from), until: localMoment(until) });
  const chart = { fromS: found.from_s, untilS: found.until_s, stepS: found.step_s, to: within };
  return [
    tiles(found, to),
    el("div", { class: "grid two" },
      panel("Requests", "click a bar for its requests", slices(found.series, { label: "Requests", ...chart, split: (s) => SERIES.map((kind) => [COLOURS[kind] ?? kind, ENDINGS[kind], s[kind] ?? 0]) }), legend(SERIES.map((kind) => [COLOURS[kind] ?? kind, ENDINGS[kind]]))),
      panel("Tokens answered", "click a bar for its requests", slices(found.series, { label: "Tokens answered", ...chart, split: (s) => [["answered", "tokens", s.tokens]] }))),
    el("div", { class: "grid two" }, objectives(found, to), endings(found, to)),
    el("div", { class: "grid three" }, spread("To the first text", found.latency.first_ms, seconds), spread("For each further token", found.latency.token_ms, seconds), spread("Whole request", found.latency.ms, seconds)),
    el("div", { class: "grid two" }, rails(found, to), by(found, "model", "By model", to)),
    el("div", { class: "grid two" }, by(found, "key", "By key", to), by(found, "feature", "By feature", to)),
  ];
}

function stripOf(now) {
  const e = now.engine, entries = [["Running", count(now.live.length), "#/requests"], ["Waiting", count(e.requests_waiting ?? 0), "#/models"], ["KV cache", percent(e.kv_cache_usage_ratio), "#/models"], ["Event loop behind by", now.lag.p99_s === undefined ? "–" : seconds(now.lag.p99_s)]];
  return el("dl", { class: "strip", "aria-label": "Now" }, entries.map(([name, value, href]) => el("div", {}, el("dt", {}, name), el("dd", {}, href ? el("a", { href }, value) : value))));
}

const troublesOf = (now) => (now.troubles.length ? el("section", { class: "notice", "aria-label": "What does not work now" }, now.troubles.map((one) => el("p", {}, el("strong", {}, one.part), `: ${one.reason}`))) : null);

// Refusals at the door have no line among requests: they are counted by tenant, for the last half hour.
function turnedAway(now) {
  const by = new Map(), slices = now.series.filter((one) => one.turned_away.length);
  for (const [tenant, n] of slices.flatMap((one) => one.turned_away)) by.set(tenant, (by.get(tenant) ?? 0) + n);
  if (!by.size) return null;
  const all = [...by.values()].reduce((sum, n) => sum + n, 0), most = [...by].sort(([, a], [, b]) => b - a).slice(0, 5);
  const said = ` turned away at the door in the last half hour, the last about ${clock(slices.at(-1).at_s)}: every model was too busy ([server] shed_s). They have no line among the requests. By tenant: `;
  return el("section", { class: "notice", "aria-label": "Turned away" }, el("p", {}, el("strong", {}, `${count(all)} ${plural(all, "request")}`), said, most.map(([tenant, n]) => `${tenant} ${count(n)}`).join(", "), by.size > most.length ? ", …" : ""));
}

export async function page({ signal, params: given, onTick }) {
  let params = given, last = 0;
  const body = el("div", { class: "grid" }), strip = el("div", { class: "stack" }), note = el("p", {}), failed = el("p", { class: "notice bad", role: "alert", hidden: true });
  const range = () => (params.get("from") || params.get("until") ? { from: params.get("from"), until: params.get("until") } : { last: params.get("last") ?? STANDARD });
  const to = (filter) => address("requests", { ...range(), ...(params.get("model") ? { model: params.get("model") } : {}), ...filter });
  async function refresh() {
    last = Date.now();
    const bounds = rangeOf(params, STANDARD), sent = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...bounds, model: params.get("model") })) if (value) sent.set(name, value);
    const [now, found] = await Promise.all([ask("/admin/console/overview", { signal }), ask(`/admin/console/figures?${sent}`, { signal })]);
    const kept = found.kept_since_s === null ? "" : `, requests kept since ${when(found.kept_since_s)}`;
    note.textContent = `${now.readiness === "ready" ? now.state : now.readiness} since ${when(now.started_s)}${kept}${found.survives ? "" : " (in memory; [telemetry] history keeps them)"}`;
    strip.replaceChildren(...[troublesOf(now), turnedAway(now), stripOf(now)].filter(Boolean));
    body.replaceChildren(...drawn(found, to, params.get("model")));
    failed.hidden = true;
    return now;
  }
  const tell = (error) => { if (!signal.aborted) { failed.hidden = false; failed.textContent = error.message; } };
  const now = await refresh();
  const fields = [
    { name: "last", label: "Time", standard: STANDARD, options: RANGES.map(([value, name]) => [value, `Last ${name}`]) },
    { name: "from", label: "From", type: "datetime-local", step: "1" }, { name: "until", label: "Until", type: "datetime-local", step: "1" },
    { name: "model", label: "Model", options: [["", "All"], ...now.models.map((m) => [m.name, m.name])] }];
  const bar = el("div", {});
  const drawBar = () => bar.replaceChildren(filterBar(fields, params, (wanted) => {
    const cleared = [...wanted].length === 0 && [...params].length > 0;
    params = wanted;
    keepAddress("overview", params);
    if (cleared) drawBar();
    refresh().catch(tell);
  }));
  drawBar();
  onTick((tick) => {
    if (document.hidden || params.get("until") || body.contains(document.activeElement) || Date.now() - last < EVERY_MS || (!tick.ended.length && Date.now() - last < 5 * EVERY_MS)) return;
    refresh().catch(tell);
  });
  return [el("div", { class: "head" }, el("h1", {}, "Overview"), note), strip, el("section", { class: "panel", "aria-label": "Range" }, bar, failed), body];
}
