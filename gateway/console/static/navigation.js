import { el } from "./dom.js";
import { SECTIONS } from "./sections.js";

export function drawNavigation(current) {
  const lit = current.under ?? current.name;
  const groups = new Map();
  for (const section of SECTIONS.filter((found) => found.group)) groups.set(section.group, [...(groups.get(section.group) ?? []), section]);
  document.getElementById("sections").replaceChildren(...[...groups].map(([group, sections]) => el("div", { class: "group" },
    el("p", { id: `group-${group}` }, group),
    el("ul", { "aria-labelledby": `group-${group}` }, sections.map(({ name, title }) =>
      el("li", {}, el("a", { href: `#/${name}`, "aria-current": name === lit ? "page" : null }, title)))))));
}

// Where the screen is narrow the sections open from a button, and close with Escape or once one is chosen.
export function wireMenu() {
  const button = document.getElementById("menu"), side = document.getElementById("side");
  const open = (wanted) => {
    button.setAttribute("aria-expanded", String(wanted));
    side.classList.toggle("open", wanted);
  };
  button.addEventListener("click", () => open(button.getAttribute("aria-expanded") !== "true"));
  side.addEventListener("click", (event) => { if (event.target.closest("a")) open(false); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || button.getAttribute("aria-expanded") !== "true") return;
    open(false);
    button.focus();
  });
}

const THEMES = ["system", "light", "dark"];
const THEME = "sluicegate.theme";

function theme(wanted) {
  const root = document.documentElement;
  if (wanted === "system") delete root.dataset.theme;
  else root.dataset.theme = wanted;
  localStorage.setItem(THEME, wanted);
  document.getElementById("theme").textContent = `Theme: ${wanted}`;
}

// The system's choice, until somebody here chooses otherwise.
export function wireTheme() {
  const kept = localStorage.getItem(THEME);
  let now = THEMES.includes(kept) ? kept : "system";
  theme(now);
  document.getElementById("theme").addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    theme(now);
  });
}
