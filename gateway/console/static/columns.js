// Stacked columns over time, as elements: their labels keep their size at every width.
import { el } from "./dom.js";
import { table } from "./tables.js";

// `slots`: [{ name, parts: [[class, name, value]], href }], oldest first. `format` writes a value. A column with an address
// opens it by a click; the keyboard and screen readers find it in the table, which has the same.
export function columns({ label, slots, format, most = null }) {
  const sums = slots.map((slot) => slot.parts.reduce((all, [, , value]) => all + value, 0));
  const top = most ?? Math.max(...sums, 0), whole = sums.reduce((all, value) => all + value, 0);
  if (!top) return el("p", { class: "empty" }, "Nothing in this time.");
  const drawn = slots.map((slot, at) => el("div", { class: slot.href ? "column opens" : "column", on: slot.href ? { click: () => { location.hash = slot.href; } } : {}, title: `${slot.name}: ${slot.parts.filter(([, , v]) => v > 0).map(([, name, v]) => `${name} ${format(v)}`).join(", ") || "nothing"}` },
    slot.parts.filter(([, , value]) => value > 0).map(([kind, , value]) => el("span", { class: kind, style: { height: `${Math.max(1.5, (100 * value) / top)}%` } })), sums[at] ? null : el("span", { class: "none" })));
  const marked = slots.length > 2 ? [slots[0], slots[Math.floor(slots.length / 2)], slots.at(-1)] : slots;
  return el("div", { class: "columns-chart" },
    el("p", { class: "top-mark", "aria-hidden": "true" }, format(top)),
    el("div", { class: "columns", role: "img", "aria-label": `${label}: ${format(whole)} in all, at most ${format(top)} at a time` }, drawn),
    el("div", { class: "columns-axis", "aria-hidden": "true" }, marked.map((slot) => el("span", {}, slot.name))));
}

export function columnsTable(caption, slots, format) {
  const names = [...new Set(slots.flatMap((slot) => slot.parts.map(([, name]) => name)))];
  const rows = slots.filter((slot) => slot.parts.length).map((slot) => el("tr", {}, el("td", {}, slot.href ? el("a", { href: slot.href }, slot.name) : slot.name), names.map((name) => el("td", { class: "number" }, format(slot.parts.find((part) => part[1] === name)?.[2] ?? 0)))));
  return el("details", {}, el("summary", {}, "As a table"), table(caption, [["Time"], ...names.map((name) => [name, "number"])], rows, "Nothing in this time."));
}

// A share of a limit; red where it is used up.
export function gauge(used, limit, format, name) {
  if (limit === null || limit === undefined) return el("span", { class: "gauge-text" }, format(used));
  const share = limit > 0 ? used / limit : 1;
  return el("div", { class: "gauge", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": limit, "aria-valuenow": Math.min(used, limit), "aria-valuetext": `${format(used)} of ${format(limit)}` },
    el("span", { class: "gauge-text" }, `${format(used)} of ${format(limit)}`),
    el("span", { class: "track" }, el("span", { class: share >= 1 ? "full" : share >= 0.8 ? "near" : "", style: { width: `${Math.min(100, 100 * share)}%` } })));
}

// A figure between 0 and 1 with its 95 % interval.
export function whisker(found, format) {
  if (!found) return el("span", {}, "–");
  const at = (share) => `${100 * Math.min(1, Math.max(0, share))}%`;
  return el("div", { class: "whisker" }, el("span", { class: "gauge-text" }, format(found.value)),
    el("span", { class: "track", title: `95 %: ${format(found.low)} to ${format(found.high)}, of ${found.n}` }, el("span", { class: "point", style: { width: at(found.value) } }), el("span", { class: "span95", style: { left: `min(${at(found.low)}, 100% - 2px)`, width: at(Math.max(0, found.high - found.low)) } })),
    el("span", { class: "note" }, `${format(found.low)} to ${format(found.high)}`));
}
