// The OpenAPI document, read by people: what each operation takes and answers, and a form to try it. Whatever the
// document or an answer says is put into the page as text, never as markup.
import { bodyOf, schemaFields, typeName } from "./schemas.js";
import { trial } from "./trial.js";
import { el, words } from "./elements.js";

const FIRST = ["post", "/v1/chat/completions"];
const main = document.querySelector("main");
const nav = document.querySelector("nav");
const access = { key: "" };
let api;

async function readDocument() {
  let found = await fetch("openapi.json");
  while (found.status === 401) {
    await askForKey(access.key !== "");
    found = await fetch("openapi.json", { headers: { authorization: `Bearer ${access.key}` } });
  }
  if (!found.ok) throw new Error(`The document cannot be read: ${found.status}`);
  return found.json();
}

function askForKey(refused) {
  const why = refused
    ? "This key was not accepted. Give another one."
    : "This gateway shows its interface to those who have a key.";
  return new Promise((done) => {
    const input = el("input", { type: "password", placeholder: "API key", "aria-label": "API key" });
    const show = el("button", {}, "Show");
    show.onclick = () => {
      access.key = input.value;
      done();
    };
    input.onkeydown = (event) => {
      if (event.key === "Enter") show.onclick();
    };
    main.replaceChildren(el("p", { class: "lead" }, why), input, show);
    input.focus();
  });
}

function listOperations() {
  const groups = new Map((api.tags || []).map((tag) => [tag.name, []]));
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = (operation.tags || ["more"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      const link = { href: `#${method}${path}` };
      groups.get(tag).push(el("a", link, el("span", { class: `verb ${method}` }, method), el("span", {}, path)));
    }
  }
  nav.append(el("h1", {}, api.info.title), el("p", { class: "version" }, `API, version ${api.info.version}`));
  for (const [tag, links] of groups) nav.append(el("h2", {}, tag), ...links);
}

function showOperation(method, path) {
  const operation = api.paths[path][method];
  const body = bodyOf(operation.requestBody);
  const answer = bodyOf(operation.responses["200"]);
  const left = [...parameters(operation), ...taken(body), ...answered(answer)];
  const right = [...trial(method, path, operation, api, access), ...statuses(operation)];
  main.replaceChildren(
    el("h2", { class: "title" }, el("span", { class: `verb ${method}` }, method), el("code", {}, path),
      el("span", {}, operation.summary || "")),
    el("p", { class: "lead" }, ...words(operation.description || "")),
    el("div", { class: "columns" }, el("div", {}, ...left), el("div", {}, ...right)),
  );
  for (const link of nav.querySelectorAll("a")) link.classList.toggle("on", link.hash === `#${method}${path}`);
}

function parameters({ parameters: found }) {
  if (!found) return [];
  const rows = found.map((one) => row(one.name, `${one.in}${one.required ? ", required" : ""}`, typeName(one.schema || {})));
  return [el("h3", {}, "Parameters"), el("table", {}, ...rows)];
}

function taken(body) {
  if (!body) return [];
  const about = schemaFields(body.schema, api);
  return [el("h3", {}, "Takes"), el("p", { class: "about" }, ...words(about.description)), about.list];
}

function answered(answer) {
  const fields = answer && schemaFields(answer.schema, api);
  return fields && fields.known ? [el("h3", {}, "Answers"), fields.list] : [];
}

function statuses({ responses }) {
  const rows = Object.entries(responses).map(([status, said]) => row(status, said.description || ""));
  return [el("h3", {}, "Statuses"), el("table", {}, ...rows)];
}

const row = (...cells) => el("tr", {}, ...cells.map((text) => el("td", {}, ...words(text))));

function showWhatTheAddressNames() {
  const [, method, path] = decodeURIComponent(location.hash).match(/^#(\w+?)(\/.*)$/) || [null, ...FIRST];
  if (api.paths[path] && api.paths[path][method]) showOperation(method, path);
}

try {
  api = await readDocument();
  listOperations();
  addEventListener("hashchange", () => {
    showWhatTheAddressNames();
    main.scrollIntoView(); // in a narrow window the list stands above it
  });
  showWhatTheAddressNames();
} catch (error) {
  main.replaceChildren(el("p", { class: "lead" }, error.message));
}
