import { Failure, ask } from "../api.js";
import { chip, clock, count, el, panel, table } from "../dom.js";

async function read(path, signal) {
  try { return (await ask(path, { signal })).data; } catch (error) { if (error instanceof Failure && error.status === 404) return []; throw error; }
}

export async function page({ signal }) {
  const body = el("div", { class: "grid" }), said = el("p", { role: "status", class: "note" });
  const refresh = async () => {
    const [served, routes] = await Promise.all([read("/admin/models", signal), read("/admin/routes", signal)]);
    body.replaceChildren(servedPanel(served), ...(routes.length ? routes.map((route) => routePanel(route, refresh, said)) : [noRoutes()]));
  };
  await refresh();
  return [el("div", { class: "head" }, el("h1", {}, "Models"), el("p", {}, "what is served, which version answers, and the way back")), body, said];
}

function servedPanel(served) {
  const rows = served.map((m) => el("tr", {}, el("td", {}, m.id), el("td", { class: "mono" }, m.version), el("td", {}, m.route ? chip("route", "info") : chip(m.remote ? "upstream" : "in this process")),
    el("td", { class: "number" }, count(m.context_length)), el("td", { class: "number" }, m.load ? count(m.load.running) : "–"), el("td", { class: "number" }, m.load ? count(m.load.waiting) : "–")));
  return panel("Served now", null, table("Models", [["Name"], ["Version"], ["Where"], ["Context", "number"], ["Running", "number"], ["Waiting", "number"]], rows, "No model is loaded."));
}

const noRoutes = () => panel("Versions", null, el("p", { class: "empty" }, "No public name stands for versions yet. A route with weights (docs/operations.md) gets its button to roll back here."));

function share(weights) {
  const sum = Object.values(weights).reduce((all, w) => all + w, 0) || 1;
  return Object.entries(weights).map(([name, w]) => `${name} ${Math.round((100 * w) / sum)} %`).join(", ");
}

function routePanel(route, refresh, said) {
  const roll = async () => {
    try {
      const now = await ask(`/admin/routes/${encodeURIComponent(route.name)}/rollback`, { method: "POST", body: {} });
      said.textContent = `${route.name} is back at ${share(now.weights)}.`;
      await refresh();
    } catch (error) { said.textContent = error.message; }
  };
  const sum = Object.values(route.weights).reduce((all, w) => all + w, 0) || 1;
  const rows = Object.entries(route.weights).map(([name, w]) => el("tr", {}, el("td", {}, name), el("td", {}, w > 0 ? chip("answers", "good") : chip("at rest")), el("td", { class: "number" }, `${Math.round((100 * w) / sum)} %`)));
  const past = [...route.history].reverse().map((c) => el("tr", {}, el("td", {}, clock(c.at_s)), el("td", {}, c.by), el("td", {}, share(c.weights))));
  return el("section", { class: "panel" },
    el("header", {}, el("h2", {}, route.name), el("p", {}, [route.sticky ? `sticky by ${route.sticky}` : "", route.fallback.length ? `falls back to ${route.fallback.join(", ")}` : "", route.shadow ? `shadowed by ${route.shadow}` : ""].filter(Boolean).join("; ")),
      el("span", { class: "end" }, el("button", { type: "button", class: "danger", disabled: route.history.length < 2, on: { click: roll } }, "Roll back"))),
    el("div", { class: "stack" }, table(`Versions of ${route.name}`, [["Version"], ["State"], ["Share", "number"]], rows, "No version."),
      past.length ? el("details", {}, el("summary", {}, "Changes, the newest in force"), table("Changes", [["At"], ["By"], ["Shares"]], past, "")) : null));
}
