// Tables that never scroll sideways: where a row is too wide the least of its columns go, and then each row becomes a card.
import { el } from "./dom.js";

// What is tried, in this order, until a row fits: less air, then without the `roomy` columns, then without the `minor` ones.
const STEPS = ["whole", "dense", "tight", "narrow", "cards"];
const widths = new WeakMap();
const watcher = new ResizeObserver((seen) => seen.forEach(({ target }) => fit(target.parentElement)));

function fit(box) {
  if (!box?.clientWidth || widths.get(box) === box.clientWidth) return;
  widths.set(box, box.clientWidth);
  for (const step of STEPS.filter((name) => box.dataset.steps.includes(name))) {
    box.dataset.fit = step;
    if (box.scrollWidth <= box.clientWidth) return;
  }
}

// Roles are said, since cards take away those that a table has by itself; a card says the name of each column.
function spoken(box) {
  const names = [...box.querySelectorAll("thead th")].map((head) => head.textContent);
  const role = (query, name) => box.querySelectorAll(query).forEach((node) => node.setAttribute("role", name));
  role("table", "table"); role("thead, tbody", "rowgroup"); role("tr", "row"); role("thead th", "columnheader"); role("tbody th", "rowheader"); role("td", "cell");
  for (const row of box.querySelectorAll("tbody tr")) [...row.children].forEach((found, at) => found.setAttribute("data-label", names[at] ?? ""));
}

// `columns`: [name, classes]. `every`: no column may go, a narrow screen gets cards at once.
export function table(caption, columns, rows, empty, { every = false } = {}) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = el("tr", {}, columns.map(([name, kind]) => el("th", { scope: "col", class: kind ?? "" }, name)));
  const ruler = el("div", { class: "ruler", "aria-hidden": "true" }); // its height stays: watching the box itself would go in circles
  const box = el("div", { class: "scroll", "data-steps": every ? "whole dense cards" : STEPS.join(" "), "data-fit": "whole" }, ruler,
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, head), el("tbody", {}, rows)));
  spoken(box);
  watcher.observe(ruler);
  return box;
}

export const cards = (caption, columns, rows, empty) => table(caption, columns, rows, empty, { every: true });
