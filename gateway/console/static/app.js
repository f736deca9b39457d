import { el } from "./dom.js";
import { Failure, events, key } from "./api.js";
import { overview } from "./overview.js";
import { requests, trace } from "./requests.js";
import { playground } from "./playground.js";
import { reviews } from "./reviews.js";
import { models } from "./models.js";
import { usage } from "./usage.js";

const SECTIONS = { overview: ["Overview", overview], requests: ["Requests", requests], playground: ["Playground", playground], usage: ["Cache and cost", usage], reviews: ["Reviews", reviews], models: ["Models", models] };
const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
let leave = new AbortController();
let feed = null;
const listeners = new Set();

function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return [name || "overview", rest.map(decodeURIComponent).join("/")];
}

async function show() {
  leave.abort();
  leave = new AbortController();
  listeners.clear();
  const [name, detail] = place();
  const draw = name === "trace" ? trace : (SECTIONS[name] ?? SECTIONS.overview)[1];
  mark(name === "trace" ? "requests" : name);
  const context = { signal: leave.signal, detail, onTick: (act) => listeners.add(act), go: (hash) => { location.hash = hash; } };
  try {
    const shown = await draw(context);
    if (context.signal.aborted) return;
    main.replaceChildren(...[shown].flat());
    document.title = `${main.querySelector("h1")?.textContent ?? "Console"} – Sluicegate`;
    document.getElementById("forget").hidden = !key.get();
    listen();
  } catch (error) {
    if (context.signal.aborted) return;
    if (error instanceof Failure && (error.status === 401 || error.status === 403)) gate(error);
    else main.replaceChildren(el("p", { class: "notice bad", role: "alert" }, `This could not be read: ${error.message}`));
  }
}

function mark(current) {
  document.getElementById("sections").replaceChildren(...Object.entries(SECTIONS).map(([name, [title]]) =>
    el("li", {}, el("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null }, title))));
}

function gate(error) {
  const field = el("input", { type: "password", id: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const form = el("form", { on: { submit: (event) => { event.preventDefault(); key.set(field.value.trim()); show(); } } },
    el("div", {}, el("label", { for: "key" }, "Admin key"), field),
    key.get() ? el("p", { class: "notice bad", role: "alert" }, error.message) : null,
    el("button", { class: "main", type: "submit" }, "Open the console"),
    el("p", { class: "note" }, "The key stays in this browser tab until you close it or sign out."));
  main.replaceChildren(el("section", { class: "panel gate" }, el("h1", {}, "Who operates this gateway?"), form));
  pulse.className = "pulse";
  pulse.textContent = "";
  field.focus();
}

async function listen() {
  if (feed) return;
  const mine = new AbortController();
  feed = mine;
  let waited = 500;
  while (!mine.signal.aborted) {
    try {
      for await (const data of events("/admin/console/feed", { signal: mine.signal })) {
        waited = 500;
        const tick = JSON.parse(data);
        const line = tick.live.length ? `${tick.live.length} running` : "idle";
        pulse.className = "pulse on";
        if (pulse.textContent !== line) pulse.textContent = line;
        for (const act of [...listeners]) act(tick);
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Failure && error.status < 500) { feed = null; return; }
      pulse.className = "pulse off";
      pulse.textContent = "no connection";
    }
    await new Promise((resolve) => setTimeout(resolve, waited));
    waited = Math.min(waited * 2, 8000);
  }
}

function theme(next) {
  document.documentElement.dataset.theme = next;
  localStorage.setItem("sluicegate.theme", next);
  document.getElementById("theme").textContent = next === "dark" ? "Light" : "Dark";
}

theme(localStorage.getItem("sluicegate.theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
document.getElementById("forget").addEventListener("click", () => { key.forget(); feed?.abort(); feed = null; show(); });
// A page that the browser keeps for going back must not keep its connection: there are only six.
addEventListener("pagehide", () => { feed?.abort(); feed = null; });
addEventListener("pageshow", (event) => { if (event.persisted) show(); });
addEventListener("hashchange", () => show().then(() => { main.focus({ preventScroll: true }); scrollTo(0, 0); }));
show();
