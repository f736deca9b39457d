import { svg, el, clock } from "./dom.js";

const WIDTH = 560, NARROW = 380;

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

// Stacked bars over the last minutes; `split` gives [class, count] pairs for a slice.
export function timeline(series, { label, sliceS, nowS, split, minutes = 10 }) {
  const height = 150, foot = 22, slots = Math.round((minutes * 60) / sliceS);
  const start = Math.floor(nowS / sliceS) * sliceS - (slots - 1) * sliceS;
  const stacks = series.map((s) => ({ at: Math.round((s.at_s - start) / sliceS), parts: split(s).filter(([, n]) => n > 0) })).filter((s) => s.at >= 0 && s.at < slots);
  const most = Math.max(1, ...stacks.map((s) => s.parts.reduce((sum, [, n]) => sum + n, 0)));
  const step = WIDTH / slots, room = height - foot - 12;
  const drawn = stacks.map((s) => {
    let y = height - foot;
    return s.parts.map(([kind, n]) => {
      const tall = Math.max(1.5, (n / most) * room);
      y -= tall;
      return svg("rect", { class: kind, x: s.at * step + 0.4, y, width: Math.max(1.6, step - 0.8), height: tall }, svg("title", {}, document.createTextNode(`${clock(start + s.at * sliceS)} ${kind}: ${n}`)));
    });
  });
  const marks = [0, 2, 4, 6, 8, 10, 20, 30].filter((m) => m <= minutes).map((m) => {
    const x = WIDTH - (m / minutes) * WIDTH, anchor = m === 0 ? "end" : m === minutes ? "start" : "middle";
    return svg("text", { x, y: height - 6, "text-anchor": anchor }, document.createTextNode(m ? `${m} min ago` : "now"));
  });
  const total = stacks.flatMap((s) => s.parts).reduce((sum, [, n]) => sum + n, 0);
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${label}: ${total} in the last ${minutes} minutes` },
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: height - foot, y2: height - foot }),
    svg("text", { x: 0, y: 10 }, document.createTextNode(`${most}`)), drawn, marks);
}

export const legend = (entries) => el("p", { class: "legend" }, entries.map(([kind, name]) => el("span", { class: kind }, el("b", {}, name))));

const moment = (seconds, step) => (step >= 3600 ? new Date(seconds * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false }) : step >= 60 ? clock(seconds).slice(0, 5) : clock(seconds));

// Stacked bars between two moments; `open` gets the bounds of the slice that was clicked.
export function slices(series, { label, fromS, untilS, stepS, split, open }) {
  const height = 150, foot = 22, slots = Math.max(1, Math.ceil((untilS - fromS) / stepS)), step = WIDTH / slots, room = height - foot - 12;
  const stacks = series.map((s) => ({ at: Math.round((s.at_s - fromS) / stepS), parts: split(s).filter(([, n]) => n > 0) })).filter((s) => s.at >= 0 && s.at < slots);
  const most = Math.max(1, ...stacks.map((s) => s.parts.reduce((sum, [, n]) => sum + n, 0)));
  const drawn = stacks.map((s) => {
    let y = height - foot;
    return s.parts.map(([kind, n]) => {
      const tall = Math.max(1.5, (n / most) * room);
      y -= tall;
      return svg("rect", { class: kind, x: s.at * step + 0.4, y, width: Math.max(1.6, step - 0.8), height: tall }, svg("title", {}, document.createTextNode(`${moment(fromS + s.at * stepS, stepS)} ${kind}: ${n}`)));
    });
  });
  const marks = [0, 1, 2, 3, 4].map((at) => svg("text", { x: (at / 4) * WIDTH, y: height - 6, "text-anchor": at === 0 ? "start" : at === 4 ? "end" : "middle", class: at % 2 ? "minor" : "" }, document.createTextNode(moment(fromS + ((untilS - fromS) * at) / 4, stepS))));
  const total = stacks.flatMap((s) => s.parts).reduce((sum, [, n]) => sum + n, 0);
  const made = svg("svg", { class: "chart slices", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${label}: ${total} between ${moment(fromS, stepS)} and ${moment(untilS, stepS)}` },
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: height - foot, y2: height - foot }),
    svg("text", { x: 0, y: 10 }, document.createTextNode(`${most}`)), drawn, marks);
  made.addEventListener("click", (event) => {
    const box = made.getBoundingClientRect(), at = Math.floor(((event.clientX - box.left) / box.width) * slots);
    open(fromS + at * stepS, fromS + (at + 1) * stepS);
  });
  return made;
}
