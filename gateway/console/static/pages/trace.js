import { ask } from "../api.js";
import { chip, count, el, facts, ms, panel } from "../dom.js";
import { tokenView } from "../tokens.js";

const KINDS = { stop: "good", success: "good", length: "warn", content_filter: "warn", tool_calls: "good", cancelled: "" };
const ended = (line) => chip(line.cached ? `${line.ended}, cached` : line.ended, KINDS[line.ended.split(",")[0]] ?? "bad");

function bar(span, total) {
  const left = (100 * span.at_ms) / total, width = Math.max(0.25, (100 * span.ms) / total);
  return el("span", { class: `span slot-${span.slot}`, style: { left: `${Math.min(left, 99.5)}%`, width: `${Math.min(width, 100 - left)}%` } });
}

function row(span, total, depth, chosen) {
  const events = span.events.filter((e) => !e.name.endsWith(".hold")).map((e) => el("span", { class: "event", style: { left: `${(100 * e.at_ms) / total}%` }, title: `${e.name} at ${ms(e.at_ms)}` }));
  const made = el("button", { type: "button", class: "wrow", "aria-pressed": "false", on: { click: () => chosen(span, made) } },
    el("span", { class: depth > 1 ? "name deep" : "name" }, span.name), el("span", { class: "lane", "aria-hidden": "true" }, bar(span, total), events),
    el("span", { class: "time" }, ms(span.ms)), el("span", { class: "hidden" }, `, begins at ${ms(span.at_ms)}`));
  return made;
}

function holdRow(holds, total) {
  const sum = holds.reduce((all, h) => all + h.ms, 0), most = Math.max(...holds.map((h) => h.characters));
  return el("div", { class: "wrow", role: "note" }, el("span", { class: "name deep" }, "text held back"),
    el("span", { class: "lane", "aria-hidden": "true" }, holds.map((h) => el("span", { class: "hold", title: `${h.characters} characters for ${ms(h.ms)}`, style: { left: `${(100 * h.at_ms) / total}%`, width: `${Math.max(0.2, (100 * h.ms) / total)}%` } }))),
    el("span", { class: "time" }, ms(sum)), el("span", { class: "hidden" }, `${holds.length} times, at most ${most} characters`));
}

function depthOf(span, spans) {
  let depth = 0;
  for (let at = span; at.parent !== null && at.parent !== undefined; at = spans[at.parent]) depth++;
  return depth;
}

function waterfall(found, chosen) {
  const total = Math.max(found.ms, 0.001);
  const scale = el("div", { class: "ticks", "aria-hidden": "true" }, el("span", {}), el("div", { class: "scale" }, [0, 25, 50, 75, 100].map((at) => el("span", { style: { left: `${at}%` } }, ms((total * at) / 100)))), el("span", {}));
  const rows = [];
  for (const span of found.spans) {
    rows.push(row(span, total, depthOf(span, found.spans), chosen));
    if (span.name === "generate deliver" && found.holds.length) rows.push(holdRow(found.holds, total));
  }
  return el("div", { class: "waterfall" }, scale, rows);
}

function spanFacts(span) {
  return [facts([["Span", span.name], ["Begins", ms(span.at_ms)], ["Takes", ms(span.ms)], ...Object.entries(span.attributes).map(([k, v]) => [k, Array.isArray(v) ? v.join(", ") : v])]),
    span.events.length ? facts(span.events.map((e) => [e.name, `${ms(e.at_ms)} ${Object.entries(e.attributes).map(([k, v]) => `${k.split(".").pop()} ${typeof v === "number" ? +v.toFixed(4) : v}`).join(", ")}`])) : null].filter(Boolean);
}

function saidPanel(found) {
  if (!found.messages) return panel("Prompt and answer", null, el("p", { class: "empty" }, "Not kept. The operator can opt in with [telemetry] content = true; the rails then redact before anything is shown."));
  return panel("Prompt and answer", "after the rails", el("div", { class: "said" },
    found.messages.map((m) => el("div", {}, el("label", {}, m.role), el("pre", { class: "text" }, m.text))),
    found.answers.map((a) => el("div", {}, el("label", {}, `answer, ${a.ended}`), el("pre", { class: "text" }, a.text)))));
}

export async function page({ signal, detail }) {
  const found = await ask(`/admin/console/requests/${encodeURIComponent(detail)}`, { signal });
  const side = el("div", { class: "stack", "aria-live": "polite" });
  let pressed = null;
  const choose = (span, button) => {
    pressed?.setAttribute("aria-pressed", "false");
    pressed = button;
    button.setAttribute("aria-pressed", "true");
    side.replaceChildren(...spanFacts(span));
  };
  const e = found.engine ?? {};
  const picture = waterfall(found, choose);
  const slowest = [...found.spans.keys()].filter((i) => i > 0).sort((a, b) => found.spans[b].ms - found.spans[a].ms)[0] ?? 0;
  choose(found.spans[slowest], picture.querySelectorAll("button.wrow")[slowest]);
  return [
    el("div", { class: "head" }, el("h1", {}, "Trace"), el("p", { class: "mono" }, found.id), ended(found), el("a", { class: "end", href: "#/requests" }, "All requests")),
    el("dl", { class: "tiles" },
      [["Whole", ms(found.ms), found.model], ["First text", ms(found.first_ms), "after rails"], ["Queue", ms(e.queue_ms), "before the engine"], ["Prefill", ms(e.prefill_ms), `${count(found.prompt_tokens)} tokens, ${count(found.cached_tokens)} reused`],
        ["Decode", ms(e.decode_ms), `${count(e.tokens)} tokens, ${count(e.forced_tokens)} forced`], ["Masks", ms(e.mask_ms), e.drafted_tokens ? `${e.accepted_tokens} of ${e.drafted_tokens} guesses right` : "no guesses"]].map(([name, value, sub]) =>
        el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "sub" }, sub ?? "")))),
    panel("Where the time went", "choose a line to see what its stage said", picture),
    el("div", { class: "grid wide-left" }, el("section", { class: "panel" }, el("header", {}, el("h2", {}, "What it said")), side),
      panel("Request", null, facts([["Trace", el("code", {}, found.trace)], ["Exported", found.sampled ? "yes" : "no"], ["Key", found.key], ["Tenant", found.tenant], ["Model version", el("code", {}, found.version)], ["Began", new Date(found.at_s * 1000).toLocaleString()]]))),
    found.tokens?.length ? panel("Tokens of the answer", null, tokenView(found.tokens)) : null,
    saidPanel(found),
  ].filter(Boolean);
}
