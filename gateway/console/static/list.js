// Filters, a range of time and paging, shared by every page that lists something.
import { address } from "./address.js";
import { el } from "./dom.js";
import { table } from "./tables.js";

export const RANGES = [["900", "15 minutes"], ["3600", "hour"], ["21600", "6 hours"], ["86400", "24 hours"], ["604800", "7 days"], ["2592000", "30 days"]];

// Unix seconds that the filters `last` (seconds) or `from` and `until` (of the browser's clock) stand for.
export function rangeOf(params, standard = "") {
  const given = (name) => (params.get(name) ? new Date(params.get(name)).getTime() / 1000 : null);
  if (params.get("from") || params.get("until")) return { from_s: given("from"), until_s: given("until") };
  const last = Number(params.get("last") ?? standard);
  return { from_s: last > 0 ? Date.now() / 1000 - last : null, until_s: null };
}

function option([value, name], chosen) {
  return el("option", { value, selected: value === chosen }, name);
}

function field(spec, params) {
  const id = `filter-${spec.name}`, now = params.get(spec.name) ?? spec.standard ?? "";
  const control = spec.options
    ? el("select", { id, name: spec.name }, (spec.options.some(([value]) => value === now) ? spec.options : [...spec.options, [now, now]]).map((found) => option(found, now)))
    : el("input", { id, name: spec.name, type: spec.type ?? "text", value: now, placeholder: spec.hint, autocomplete: "off", spellcheck: "false", step: spec.step });
  return el("div", { class: `field ${spec.wide || spec.type === "datetime-local" ? "wide" : ""}` }, el("label", { for: id }, spec.label), control);
}

// What is seldom asked for stays folded, unless it is asked for now.
function rareFields(specs, params) {
  const rare = specs.filter((spec) => spec.rare);
  if (!rare.length) return null;
  return el("details", { class: "more", open: rare.some((spec) => params.get(spec.name)) }, el("summary", {}, "More filters"), rare.map((spec) => field(spec, params)));
}

// Specs: { name, label, options: [[value, text]] } for a choice, else a text; `type`, `hint`, `standard`, `wide`, `rare` as wanted.
// `apply` gets the filters that are set, as URLSearchParams; whoever calls decides what becomes of them.
export function filterBar(specs, params, apply, ...further) {
  const read = () => {
    const set = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      const spec = specs.find((found) => found.name === name);
      if (value.trim() !== (spec?.standard ?? "")) set.set(name, value.trim());
    }
    return set;
  };
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filters", on: {
    submit: (event) => { event.preventDefault(); apply(read()); },
    change: () => apply(read()) } },
    specs.filter((spec) => !spec.rare).map((spec) => field(spec, params)), rareFields(specs, params),
    el("div", { class: "row" }, el("button", { type: "submit" }, "Apply"), el("button", { type: "button", class: "quiet", on: { click: () => apply(new URLSearchParams()) } }, "Clear"), further));
  return form;
}

export const timeField = (standard = "") => ({ name: "last", label: "Time", standard, options: [["", standard ? "All" : "All kept"], ...RANGES.map(([value, name]) => [value, `Last ${name}`])] });
export const betweenFields = () => [{ name: "from", label: "From", type: "datetime-local", step: "1" }, { name: "until", label: "Until", type: "datetime-local", step: "1" }];

// Keep what is shown in the address, so that a reload, a bookmark or a colleague sees the same.
export function keepAddress(name, params, detail = "") {
  history.replaceState(null, "", address(name, Object.fromEntries(params), detail));
}

// A table whose next page is asked for only when somebody wants it. `read(cursor)` gives { rows, next }: `next` is null at the end.
export function pagedTable({ caption, columns, read, empty }) {
  const shown = el("div", {}), note = el("p", { class: "note", role: "status" });
  const newer = el("button", { type: "button", on: { click: () => turn(-1) } }, "Newer");
  const older = el("button", { type: "button", on: { click: () => turn(1) } }, "Older");
  let cursors = [null], at = 0, next = null, asked = 0;
  async function draw() {
    const mine = ++asked, found = await read(cursors[at]);
    if (mine !== asked) return found;
    next = found.next;
    shown.replaceChildren(table(caption, columns, found.rows, empty));
    newer.disabled = at === 0;
    older.disabled = next === null;
    note.textContent = found.rows.length ? `${found.total === undefined ? "" : `${found.total} found, `}page ${at + 1}` : "";
    return found;
  }
  async function turn(step) {
    if (step > 0 && next === null) return;
    at = Math.max(0, at + step);
    if (step > 0) cursors[at] = next;
    await draw();
    shown.querySelector(".scroll")?.scrollIntoView({ block: "nearest" });
  }
  return {
    node: el("div", { class: "paged" }, shown, el("div", { class: "row end pager" }, note, newer, older)),
    first: () => { cursors = [null]; at = 0; return draw(); },
    refresh: draw,
    isFirst: () => at === 0,
    holdsFocus: () => shown.contains(document.activeElement),
  };
}

// Unix seconds as `from` and `until` write them: the browser's clock, to the second.
export function localMoment(seconds) {
  const at = new Date(Math.round(seconds) * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
