// Elements are built, never parsed: whatever a prompt or a model wrote arrives here as text and stays text.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (key === "style") for (const [property, text] of Object.entries(value)) made.style.setProperty(property, text);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children.flat(Infinity).filter(Boolean));
  return made;
}

export function panel(title, note, ...children) {
  return el("section", { class: "panel" }, el("header", {}, el("h2", {}, title), note ? el("p", {}, note) : null), ...children);
}

// One cell of a table; names that somebody chose may be long and are broken.
export function cell(content, kind = "") {
  return el("td", { class: `${kind} ${typeof content === "string" && content.length > 16 ? "long" : ""}` }, content);
}

export function bars(entries, format) {
  const most = Math.max(1, ...entries.map(([, value]) => value));
  return el("div", { class: "bars" }, entries.map(([name, value]) => el("div", { class: "bar" },
    el("span", {}, name),
    el("span", { class: "track" }, el("span", { style: { width: `${(100 * value) / most}%` } })),
    el("span", { class: "number" }, format(value)))));
}

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) =>
    [el("dt", {}, k), el("dd", {}, v instanceof Node ? v : String(v))]));
}

export const chip = (text, kind = "") => el("span", { class: `chip ${kind} ${String(text).length > 32 ? "long" : ""}` }, text);

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.005) return value > 0 ? "< 0.01 ms" : "0 ms";
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 100) return `${value.toFixed(1)} ms`;
  return value < 10000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

export const plural = (value, one, more = `${one}s`) => (value === 1 ? one : more);

export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(share > 0.1 ? 0 : 1)} %` : "–");
// The moment, with its day where that is not today.
export function when(seconds) {
  const at = new Date(seconds * 1000), today = new Date().toDateString() === at.toDateString();
  return today ? clock(seconds) : `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ${clock(seconds)}`;
}

// With its day and year, whatever the day.
export const dated = (seconds) => new Date(seconds * 1000).toLocaleString([], { hour12: false });
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
