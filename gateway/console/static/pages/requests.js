import { ask } from "../api.js";
import { chip, clock, count, el, ms, panel, table } from "../dom.js";

const KINDS = { stop: "good", success: "good", length: "warn", content_filter: "warn", tool_calls: "good", cancelled: "" };
const ended = (line) => chip(line.cached ? `${line.ended}, cached` : line.ended, KINDS[line.ended.split(",")[0]] ?? "bad");

function liveRow(line) {
  return el("tr", {}, el("td", { class: "mono" }, line.id), el("td", {}, line.model), el("td", {}, line.tenant), el("td", {}, chip(line.stage, "info")),
    el("td", { class: "number" }, count(line.prompt_tokens)), el("td", { class: "number" }, count(line.tokens)), el("td", { class: "number" }, ms(line.ms)));
}

function doneRow(line) {
  const open = () => { location.hash = `#/trace/${encodeURIComponent(line.id)}`; };
  return el("tr", { class: "link", on: { click: open } },
    el("td", {}, el("a", { href: `#/trace/${encodeURIComponent(line.id)}`, "aria-label": `Trace of the request at ${clock(line.at_s)}` }, clock(line.at_s))),
    el("td", {}, line.model), el("td", {}, line.key ?? line.tenant), el("td", {}, line.stream ? `${line.output}, streamed` : line.output), el("td", {}, ended(line)),
    el("td", {}, line.verdicts.map(([, rail, verdict]) => chip(`${rail}: ${verdict}`, verdict === "block" || verdict === "failed" ? "bad" : "warn"))),
    el("td", { class: "number" }, count(line.prompt_tokens)), el("td", { class: "number" }, count(line.completion_tokens)),
    el("td", { class: "number" }, ms(line.first_ms)), el("td", { class: "number" }, ms(line.ms)));
}

const LIVE = [["Request"], ["Model"], ["Tenant"], ["Doing"], ["Prompt", "number"], ["Tokens", "number"], ["For", "number"]];
const DONE = [["At"], ["Model"], ["Key"], ["Answer"], ["Ended"], ["Rails"], ["Prompt", "number"], ["Tokens", "number"], ["First text", "number"], ["Whole", "number"]];

export async function page({ signal, onTick }) {
  const live = el("div", {}), done = el("div", {});
  const drawLive = (lines) => live.replaceChildren(table("Requests running now", LIVE, lines.map(liveRow), "Nothing runs at the moment."));
  const refresh = async () => {
    const found = await ask("/admin/console/requests?limit=100", { signal });
    drawLive(found.live);
    done.replaceChildren(table("Requests that have ended, newest first", DONE, found.recent.map(doneRow), "No request has ended yet. Try the playground."));
  };
  await refresh();
  onTick((tick) => { drawLive(tick.live); if (tick.ended.length && !done.contains(document.activeElement)) refresh().catch(() => {}); });
  return [el("div", { class: "head" }, el("h1", {}, "Requests"), el("p", {}, "as they run, and the last ones that ended")),
    panel("Running now", null, live), panel("Ended", "newest first; open one to see where its time went", done)];
}
