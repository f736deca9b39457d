import { Failure, ask } from "./api.js";
import { chip, count, el, panel, table } from "./dom.js";

async function registry(signal) {
  try { return await ask("/admin/models", { signal }); } catch (error) { if (error instanceof Failure && (error.status === 404 || error.status === 405)) return null; throw error; }
}

export async function models({ signal }) {
  const body = el("div", { class: "grid" });
  const said = el("p", { role: "status", class: "note" });
  const refresh = async () => {
    const [now, kept] = await Promise.all([ask("/admin/console/overview", { signal }), registry(signal)]);
    body.replaceChildren(served(now), ...routes(kept, refresh, said));
  };
  await refresh();
  return [el("div", { class: "head" }, el("h1", {}, "Models"), el("p", {}, "what is served, and the way back")), body, said];
}

function served(now) {
  const rows = now.models.map((m) => el("tr", {}, el("td", {}, m.name), el("td", { class: "mono" }, m.version), el("td", { class: "number" }, count(m.context)), el("td", { class: "number" }, count(m.vocabulary))));
  return panel("Served now", null, table("Models", [["Name"], ["Version"], ["Context", "number"], ["Vocabulary", "number"]], rows, "No model is loaded."));
}

function routes(kept, refresh, said) {
  const list = kept?.data ?? kept?.models ?? [];
  const found = Array.isArray(list) ? list : Object.entries(list).map(([name, value]) => ({ name, ...value }));
  if (!found.length) return [panel("Versions", null, el("p", { class: "empty" }, "No versioned model is configured; a model with versions gets a rollback button here."))];
  return found.map((model) => one(model, refresh, said));
}

function one(model, refresh, said) {
  const name = model.name ?? model.id, versions = model.versions ?? model.targets ?? [];
  const roll = async () => {
    try { await ask(`/admin/models/${encodeURIComponent(name)}/rollback`, { method: "POST", body: {} }); said.textContent = `${name} was rolled back.`; await refresh(); } catch (error) { said.textContent = error.message; }
  };
  const rows = versions.map((v) => el("tr", {}, el("td", {}, typeof v === "string" ? v : v.version ?? v.name ?? v.model), el("td", {}, v.weight !== undefined ? `${v.weight}` : ""), el("td", {}, v.active || v.live || v.version === model.active ? chip("live", "good") : "")));
  return el("section", { class: "panel" }, el("header", {}, el("h2", {}, name), el("span", { class: "end" }, el("button", { type: "button", class: "danger", on: { click: roll } }, "Roll back"))),
    table(`Versions of ${name}`, [["Version"], ["Weight"], ["State"]], rows, "One version."));
}
