import { address } from "../address.js";
import { ask } from "../api.js";
import { cell, chip, count, dated, el, ms, panel, when } from "../dom.js";
import { betweenFields, filterBar, keepAddress, pagedTable, rangeOf, timeField } from "../list.js";
import { ENDINGS, ended, money, verdict } from "../outcome.js";
import { table } from "../tables.js";

const PAGE = 50;
const BARE = "-"; // as the gateway reads it: those that have none
const YES_NO = [["", "Any"], ["true", "Yes"], ["false", "No"]];

const options = (values, all, none) => [["", all], ...values.map((value) => (value === "" ? [BARE, none] : [value, value]))];

function fields(choices) {
  return [
    { name: "q", label: "Request or trace id", hint: "part of an id", wide: true, type: "search" },
    timeField(),
    { name: "outcome", label: "Outcome", options: [["", "All"], ...Object.entries(ENDINGS)] },
    { name: "model", label: "Model", options: options(choices.model, "All", "none") },
    { name: "key", label: "Key", options: options(choices.key, "All", "no key") },
    { name: "route", label: "Route", options: options(choices.route, "All", "none") },
    { name: "feature", label: "Feature", options: options(choices.feature, "All", "none") },
    { name: "rail", label: "Rail acted", options: options(choices.rail, "Any", "–") },
    ...[...betweenFields(),
      { name: "ended", label: "Ended with", options: options(choices.ended, "Any", "–") },
      { name: "verdict", label: "Verdict", options: [["", "Any"], ...["redact", "escalate", "block", "failed", "pass"].map((v) => [v, v])] },
      { name: "met", label: "Objectives kept", options: YES_NO },
      { name: "cached", label: "From the cache", options: YES_NO },
      { name: "over_ms", label: "Longer than (ms)", type: "number", step: "any" },
      { name: "first_over_ms", label: "First text after (ms)", type: "number", step: "any" },
      { name: "token_over_ms", label: "A token longer than (ms)", type: "number", step: "any" }].map((spec) => ({ ...spec, rare: true })),
  ];
}

// The filters of the address as the gateway reads them: a range relative to now becomes two moments.
function query(params, more = {}) {
  const sent = new URLSearchParams(params);
  for (const name of ["last", "from", "until"]) sent.delete(name);
  for (const [name, value] of Object.entries({ ...rangeOf(params), ...more })) if (value !== null && value !== undefined) sent.set(name, value);
  return sent;
}

const COLUMNS = [["At"], ["Outcome"], ["Model"], ["Key", "minor"], ["Route", "minor roomy"], ["Feature", "minor"], ["Rails", "minor"], ["Tokens", "number minor"], ["Cost", "number minor"], ["First text", "number minor roomy"], ["Whole", "number"]];
const LIVE = [["Request"], ["Model"], ["Key", "minor"], ["Doing"], ["Prompt", "number minor"], ["Tokens", "number"], ["For", "number"]];

// A route breaks behind its slashes.
const parted = (route) => route.split(/(?<=\/)/).flatMap((part) => [part, el("wbr")]);

function row(line) {
  const href = address("trace", {}, line.id);
  return el("tr", { class: "link", on: { click: (event) => { if (!event.target.closest("a")) location.hash = href; } } },
    cell(el("a", { href, "aria-label": `Trace of the request at ${when(line.at_s)}`, title: dated(line.at_s) }, when(line.at_s)), "time"),
    cell(ended(line)), cell(line.model || "–", "name"), cell(line.key ?? line.tenant, "name minor"), cell(parted(line.route.replace(/^\/v1/, "") || "–"), "route minor roomy"), cell(line.feature || "–", "name minor"),
    cell(line.verdicts.map(verdict), "minor"), cell(`${count(line.prompt_tokens)} + ${count(line.completion_tokens)}`, "number minor"),
    cell(line.cost_nanos ? money(line.cost_nanos) : "–", "number minor"), cell(ms(line.first_ms), "number minor roomy"), cell(ms(line.ms), "number"));
}

function liveRow(line) {
  return el("tr", {}, cell(line.id, "mono name"), cell(line.model, "name"), cell(line.key ?? line.tenant, "name minor"), cell(chip(line.stage, "info")),
    cell(count(line.prompt_tokens), "number minor"), cell(count(line.tokens), "number"), cell(ms(line.ms), "number"));
}

export async function page({ signal, params: given, onTick }) {
  let params = given;
  const choices = await ask("/admin/console/choices", { signal });
  const live = el("div", {}), failed = el("p", { class: "notice bad", role: "alert", hidden: true });
  const tail = el("input", { type: "checkbox", id: "tail", checked: true });
  const drawLive = (lines) => live.replaceChildren(table("Requests running now", LIVE, lines.map(liveRow), "Nothing runs at the moment."));
  const list = pagedTable({
    caption: "Requests that have ended, newest first", columns: COLUMNS,
    empty: "No request is kept that fits. Take a filter away, or try the playground.",
    read: async (before) => {
      const found = await ask(`/admin/console/requests?${query(params, { before, limit: PAGE })}`, { signal });
      drawLive(found.live);
      return { rows: found.recent.map(row), next: found.next, total: found.total };
    },
  });
  const show = (act) => act().then(() => { failed.hidden = true; }, (error) => { if (!signal.aborted) { failed.hidden = false; failed.textContent = error.message; } });
  const bar = el("div", {});
  const drawBar = () => bar.replaceChildren(filterBar(fields(choices), params, apply, el("label", { class: "check", for: "tail" }, tail, "Follow what ends now")));
  function apply(wanted) {
    const cleared = [...wanted].length === 0 && [...params].length > 0;
    params = wanted;
    keepAddress("requests", params);
    if (cleared) drawBar();
    show(list.first);
  }
  drawBar();
  await list.first();
  onTick((tick) => {
    drawLive(tick.live);
    if ((tick.ended.length || tick.missed) && tail.checked && list.isFirst() && !list.holdsFocus()) show(list.refresh);
  });
  return [el("div", { class: "head" }, el("h1", {}, "Requests"), el("p", {}, "find one, then open it to see what happened")),
    panel("Filters", null, bar, failed), panel("Running now", null, live), panel("Ended", "newest first", list.node)];
}
