import { columns, columnsTable } from "./columns.js";
import { clock, count, el, svg } from "./dom.js";

const NARROW = 380;

// One bar for each bucket; a dashed line where the objective lies.
export function histogram(data, { label, objective, format }) {
  const height = 150, foot = 22, counts = data.counts ?? [];
  const first = counts.findIndex((c) => c > 0), last = counts.length - 1 - [...counts].reverse().findIndex((c) => c > 0);
  if (first < 0) return el("p", { class: "empty" }, "Nothing was measured yet.");
  const from = Math.max(0, first - 1), to = Math.min(counts.length - 1, last + 1), shown = counts.slice(from, to + 1);
  const most = Math.max(...shown), step = NARROW / shown.length, bounds = data.bounds_s;
  const every = Math.ceil(shown.length / 7);
  const parts = shown.map((c, i) => {
    const tall = (c / most) * (height - foot - 14), at = from + i, bound = bounds[at];
    const name = bound === undefined ? `> ${format(bounds[bounds.length - 1])}` : format(bound);
    return [
      svg("rect", { class: "fill", x: i * step + 2, y: height - foot - tall, width: Math.max(1, step - 4), height: Math.max(c ? 1.5 : 0, tall), rx: 2 },
        svg("title", {}, document.createTextNode(`up to ${name}: ${c}`))),
      i % every === 0 ? svg("text", { x: i * step + step / 2, y: height - 6, "text-anchor": "middle" }, document.createTextNode(name)) : null,
    ];
  });
  const beyond = objective ? bounds.findIndex((b) => b >= objective) : -1;
  const x = beyond >= 0 ? (beyond - from + 1) * step : -1;
  return svg("svg", { class: "chart", viewBox: `0 0 ${NARROW} ${height}`, role: "img", "aria-label": `${label}: ${data.count} values, mean ${format(data.sum_s / data.count)}` },
    svg("line", { class: "axis", x1: 0, x2: NARROW, y1: height - foot, y2: height - foot }), parts,
    x > 0 && x <= NARROW ? svg("line", { class: "mark", x1: x, x2: x, y1: 4, y2: height - foot }) : null);
}

export const legend = (entries) => el("p", { class: "legend" }, entries.map(([kind, name]) => el("span", { class: kind }, el("b", {}, name))));

const moment = (seconds, step) => (step >= 3600 ? new Date(seconds * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false }) : step >= 60 ? clock(seconds).slice(0, 5) : clock(seconds));

// Stacked columns between two moments; a slice leads to `to(its begin, its end)`, from its column or its line of the table.
export function slices(series, { label, fromS, untilS, stepS, split, to }) {
  const found = new Map(series.map((one) => [Math.round((one.at_s - fromS) / stepS), split(one)]));
  const slots = Array.from({ length: Math.max(1, Math.ceil((untilS - fromS) / stepS)) }, (_, at) => ({
    name: moment(fromS + at * stepS, stepS), href: found.has(at) ? to(fromS + at * stepS, fromS + (at + 1) * stepS) : null, parts: (found.get(at) ?? []).filter(([, , n]) => n > 0) }));
  return [columns({ label, slots, format: count }), columnsTable(label, slots.filter((slot) => slot.href), count)];
}
