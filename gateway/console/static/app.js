import { place } from "./address.js";
import { Failure, events, key } from "./api.js";
import { el } from "./dom.js";
import { drawNavigation, wireMenu, wireTheme } from "./navigation.js";
import { sectionOf } from "./sections.js";

const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
let leave = new AbortController();
let feed = null;
let entered = false;
let heard = false;
const listeners = new Set();

// What a page gets: `signal` ends with it, `onTick` is called with each event of the feed (`missed`: some were not heard before), `params` are its filters.
function contextOf(found) {
  return { signal: leave.signal, detail: found.detail, params: found.params, onTick: (act) => listeners.add(act), go: (hash) => { location.hash = hash; } };
}

async function show() {
  leave.abort();
  leave = new AbortController();
  listeners.clear();
  const found = place(), section = sectionOf(found.name), context = contextOf(found);
  drawNavigation(section);
  try {
    const { page } = await section.load();
    const shown = await page(context);
    if (context.signal.aborted) return;
    main.replaceChildren(...[shown].flat());
    document.title = `${main.querySelector("h1")?.textContent ?? "Console"} – Sluicegate`;
    document.getElementById("forget").hidden = !key.get();
    entered = true;
    listen();
  } catch (error) {
    if (context.signal.aborted) return;
    if (error instanceof Failure && (error.status === 401 || error.status === 403)) gate(error);
    else main.replaceChildren(el("h1", {}, section.title), el("p", { class: "notice bad", role: "alert" }, `This could not be read: ${error.message}`));
  }
}

function gate(error) {
  entered = false;
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

// A key that ends while a page is open: what stands there is old, and what somebody wrote there must not be lost.
function shutOut(error) {
  entered = false;
  pulse.textContent = "key refused";
  const again = el("button", { type: "button", on: { click: () => show() } }, "Enter a key");
  main.prepend(el("section", { class: "notice bad", role: "alert" }, el("p", {}, `What you see is no longer up to date: ${error.message}`), el("p", {}, again)));
}

async function listen() {
  if (feed || document.hidden) return;
  const mine = new AbortController();
  feed = mine;
  let waited = 500, missed = heard;
  while (!mine.signal.aborted) {
    try {
      for await (const data of events("/admin/console/feed", { signal: mine.signal })) {
        waited = 500;
        const tick = JSON.parse(data);
        const line = tick.live.length ? `${tick.live.length} running` : "idle";
        pulse.className = "pulse on";
        if (pulse.textContent !== line) pulse.textContent = line;
        for (const act of [...listeners]) act({ ...tick, missed });
        heard = true;
        missed = false;
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      missed = heard;
      pulse.className = "pulse off";
      if (error instanceof Failure && (error.status === 401 || error.status === 403)) { feed = null; shutOut(error); return; }
      pulse.textContent = "no connection";
    }
    await new Promise((resolve) => setTimeout(resolve, waited));
    waited = Math.min(waited * 2, 8000);
  }
}

wireTheme();
wireMenu();
function hush() {
  feed?.abort();
  feed = null;
}

document.getElementById("forget").addEventListener("click", () => { key.forget(); hush(); show(); });
// Whom nobody sees must not keep a connection: a browser opens six to one address, for all of its tabs together.
addEventListener("pagehide", hush);
document.addEventListener("visibilitychange", () => { if (document.hidden) hush(); else if (entered) listen(); });
addEventListener("pageshow", (event) => { if (event.persisted) show(); });
addEventListener("hashchange", () => show().then(() => { main.focus({ preventScroll: true }); scrollTo(0, 0); }));
show();
