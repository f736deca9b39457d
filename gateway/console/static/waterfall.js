// Where a request's milliseconds went: one line for each span, coloured by stage, marked where it failed or refused.
import { chip, el, ms, plural } from "./dom.js";

const WORDS = { bad: "failed or refused", warn: "changed something" };

function bar(span, total) {
  const left = (100 * span.at_ms) / total, width = Math.max(0.25, (100 * span.ms) / total);
  return el("span", { class: `span ${span.mark || `slot-${span.slot}`}`, style: { left: `${Math.min(left, 99.5)}%`, width: `${Math.min(width, 100 - left)}%` } });
}

function outcomeOf(span) {
  const found = span.attributes;
  const status = found["http.response.status_code"];
  if (span.mark) return `${found["sluicegate.try.outcome"] ?? found["sluicegate.stage.outcome"] ?? found["error.type"] ?? "failed"}${status ? ` ${status}` : ""}`;
  return "";
}

function row(span, total, depth, chosen) {
  const events = span.events.filter((e) => !e.name.endsWith(".hold")).map((e) => el("span", { class: "event", style: { left: `${(100 * e.at_ms) / total}%` }, title: `${e.name} at ${ms(e.at_ms)}` }));
  const made = el("button", { type: "button", class: `wrow ${span.mark}`, "aria-pressed": "false", on: { click: () => chosen(span, made) } },
    el("span", { class: depth > 1 ? "name deep" : "name" }, span.name.replace("run_guardrail", "rail"), span.mark ? [" ", chip(outcomeOf(span), span.mark)] : null),
    el("span", { class: "lane", "aria-hidden": "true" }, bar(span, total), events),
    el("span", { class: "time" }, ms(span.ms)), el("span", { class: "hidden" }, `, begins at ${ms(span.at_ms)}${span.mark ? `, ${WORDS[span.mark]}` : ""}`));
  return made;
}

function holdRow(holds, total) {
  const sum = holds.reduce((all, h) => all + h.ms, 0), most = Math.max(...holds.map((h) => h.characters));
  return el("div", { class: "wrow", role: "note" }, el("span", { class: "name deep" }, "text held back"),
    el("span", { class: "lane", "aria-hidden": "true" }, holds.map((h) => el("span", { class: "hold", title: `${h.characters} characters for ${ms(h.ms)}`, style: { left: `${(100 * h.at_ms) / total}%`, width: `${Math.max(0.2, (100 * h.ms) / total)}%` } }))),
    el("span", { class: "time" }, ms(sum)), el("span", { class: "hidden" }, `${holds.length} ${plural(holds.length, "time")}, at most ${most} characters`));
}

function depthOf(span, spans) {
  let depth = 0;
  for (let at = span; at?.parent !== null && at?.parent !== undefined && depth < 20; at = spans[at.parent]) depth++;
  return depth;
}

export function waterfall(found, chosen) {
  const total = Math.max(found.ms, 0.001), rows = [];
  const scale = el("div", { class: "ticks", "aria-hidden": "true" }, el("span", {}), el("div", { class: "scale" }, [0, 25, 50, 75, 100].map((at) => el("span", { class: at % 50 ? "minor" : "", style: { left: `${at}%` } }, ms((total * at) / 100)))), el("span", {}));
  for (const span of found.spans) {
    rows.push(row(span, total, depthOf(span, found.spans), chosen));
    if (span.name === "generate deliver" && found.holds.length) rows.push(holdRow(found.holds, total));
  }
  return el("div", { class: "waterfall" }, scale, rows);
}
