import { address } from "../address.js";
import { ask } from "../api.js";
import { whisker } from "../columns.js";
import { chip, count, el, panel, percent, plural } from "../dom.js";
import { feedbackPanel } from "../feedback.js";
import { choice, labelled } from "../forms.js";
import { cards, table } from "../tables.js";

const FIGURES = [["quality", "Quality"], ["passed", "Cases passed"], ["valid_json", "Valid JSON"], ["valid", "Valid under the schema"], ["refused", "Refused"], ["false_alarms", "False alarms"], ["missed", "Attacks missed"], ["leaks", "Leaks"]];
const CASES = 50;
const points = (share) => `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} points`;
const when = (text) => { const at = new Date(text); return Number.isNaN(at.getTime()) ? text : at.toLocaleString([], { hour12: false }); };
const seconds = (s) => (s === null || s === undefined ? "–" : `${s.toFixed(2)} s`);

export async function page(context) {
  return context.detail ? report(context) : list(context);
}

function judged(compared) {
  if (!compared?.difference) return null;
  const sure = compared.p < 0.05, kind = !sure ? "" : compared.difference.value < 0 ? "bad" : "good";
  return chip(`${compared.right}: ${points(compared.difference.value)}, p = ${compared.p.toFixed(3)}${sure ? "" : ", may be chance"}`, kind);
}

async function list({ signal }) {
  const [told, feedback] = await Promise.all([ask("/admin/evaluations", { signal }), feedbackPanel(signal)]);
  const rows = told.data.map((one) => one.error
    ? el("tr", {}, el("td", { class: "breaks" }, one.name), el("td", { colspan: "4", class: "breaks" }, chip("no report", "warn"), " ", one.error))
    : el("tr", {}, el("td", { class: "breaks" }, el("a", { href: address("evaluations", {}, one.name) }, one.suite)), el("td", {}, when(one.when)), el("td", { class: "number" }, count(one.cases)),
      el("td", {}, Object.entries(one.variants).map(([name, figures]) => el("div", { class: "breaks" }, el("span", { class: "note" }, `${name} `), whisker(figures.quality, percent)))), el("td", { class: "breaks" }, judged(one.comparison) ?? "–")));
  const empty = told.folder === null ? "This gateway has no folder of reports. Name one with [telemetry] evaluations, and write to it with `sluicegate eval SUITE --save FOLDER`." : "The folder holds no report. `sluicegate eval SUITE --save FOLDER` writes one.";
  return [el("div", { class: "head" }, el("h1", {}, "Evaluations"), el("p", {}, told.folder === null ? "reports of sluicegate eval" : `reports in ${told.folder}`)),
    panel("Reports", `newest first${told.left_out ? `; ${told.left_out} older ones are left out` : ""}`, cards("Reports", [["Suite"], ["When"], ["Cases", "number"], ["Quality"], ["Compared"]], rows, empty)), feedback].filter(Boolean);
}

async function report({ signal, detail, params, go }) {
  const beside = params.get("with") ?? "", path = (name) => `/admin/evaluations/${encodeURIComponent(name)}`;
  const [found, other, all] = await Promise.all([ask(path(detail), { signal }), beside ? ask(path(beside), { signal }) : null, ask("/admin/evaluations", { signal })]);
  const versions = [...Object.entries(found.variants).map(([name, figures]) => [other ? `${name} (${when(found.when)})` : name, figures]), ...Object.entries(other?.variants ?? {}).map(([name, figures]) => [`${name} (${other.suite}, ${when(other.when)})`, figures])];
  const select = choice("beside", [["", "nothing"], ...all.data.filter((one) => !one.error && one.name !== detail).map((one) => [one.name, `${one.suite}, ${when(one.when)}`])], beside);
  select.addEventListener("change", () => go(address("evaluations", { with: select.value }, detail)));
  return [el("div", { class: "head" }, el("h1", {}, found.suite), el("p", {}, `${when(found.when)}, ${found.cases} ${plural(found.cases, "case")}${found.repeat > 1 ? `, each asked ${found.repeat} ${plural(found.repeat, "time")}` : ""}`), el("a", { class: "end", href: "#/evaluations" }, "All reports")),
    found.notes.length || found.judge_agreement ? notesPanel(found) : null, found.comparison ? comparisonPanel(found.comparison) : null,
    panel("Figures side by side", "with 95 % intervals", el("div", { class: "stack" }, labelled("Beside another report", select), figuresTable(versions))), casesPanel(found)].filter(Boolean);
}

function notesPanel(found) {
  const agreement = found.judge_agreement;
  return panel("Before you read it", null, el("div", { class: "stack" }, agreement ? el("p", {}, `Judge and people: ${percent(agreement.equal)} of ${agreement.n} marks equal, ${agreement.kappa === null ? "kappa unknown" : `kappa ${agreement.kappa.toFixed(2)}`}.`) : null, found.notes.map((note) => el("p", {}, note))));
}

function comparisonPanel(compared) {
  const difference = compared.difference;
  return panel(`${compared.right} against ${compared.left}`, `over ${compared.cases} ${plural(compared.cases, "case")} that both were asked`, el("div", { class: "stack" },
    el("p", {}, judged(compared), difference ? ` between ${points(difference.low)} and ${points(difference.high)}` : " no difference could be told"), el("p", {}, `${compared.better} better, ${compared.worse} worse.`),
    compared.preferences ? el("p", {}, `The judge prefers ${compared.left} ${compared.preferences.left ?? 0} ${plural(compared.preferences.left ?? 0, "time")}, ${compared.right} ${compared.preferences.right ?? 0} ${plural(compared.preferences.right ?? 0, "time")}, neither ${compared.preferences.tie ?? 0} ${plural(compared.preferences.tie ?? 0, "time")}.`) : null));
}

function figuresTable(versions) {
  const names = (kind) => [...new Set(versions.flatMap(([, figures]) => Object.keys(figures[kind])))];
  const share = (title, of) => (versions.some(([, figures]) => of(figures)) ? el("tr", {}, el("th", { scope: "row", class: "breaks" }, title), versions.map(([, figures]) => el("td", {}, whisker(of(figures), percent)))) : null);
  const plain = (title, of) => el("tr", {}, el("th", { scope: "row" }, title), versions.map(([, figures]) => el("td", {}, of(figures))));
  const rows = [...FIGURES.map(([name, title]) => share(title, (figures) => figures[name])), ...names("checks").map((name) => share(`Check ${name}`, (figures) => figures.checks[name])), ...names("tags").map((name) => share(`Tag ${name}`, (figures) => figures.tags[name])),
    plain("Answers", (f) => `${count(f.answers)}${f.errors ? `, ${count(f.errors)} could not be asked` : ""}`), plain("Latency, p50 / p95 / p99", (f) => ["p50", "p95", "p99"].map((q) => seconds(f.latency_s[q])).join(" / ")), plain("Tokens", (f) => `${count(f.prompt_tokens)} + ${count(f.completion_tokens)}`), plain("Cost", (f) => (f.cost ? String(f.cost) : "no price was given"))];
  return table("Figures", [["What"], ...versions.map(([name]) => [name])], rows.filter(Boolean), "The report has no figures.");
}

// --- cases ----------------------------------------------------------------------------------------------------------

function grouped(found) {
  const cases = new Map();
  for (const one of found.results) cases.set(one.case, [...(cases.get(one.case) ?? []), one]);
  return [...cases];
}

function casesPanel(found) {
  if (!found.results.length) return panel("Cases", null, el("p", { class: "empty" }, "The report was saved without its cases."));
  const worse = new Set(found.comparison?.worse_cases ?? []), tags = [...new Set(found.results.flatMap((one) => one.tags))], every = grouped(found);
  const which = choice("which", [["", "All cases"], ["failing", "Those that fail"], ["worse", "Worse in the second version"], ...tags.map((tag) => [`tag:${tag}`, `Tag ${tag}`])], worse.size ? "worse" : "");
  const shown = el("div", { class: "cases" }), note = el("p", { class: "note", role: "status" }), more = el("button", { type: "button" }, "More");
  let most = CASES;
  const draw = () => {
    const wanted = every.filter(([id, answers]) => !which.value || (which.value === "failing" ? answers.some((one) => !one.passed) : which.value === "worse" ? worse.has(id) : answers.some((one) => one.tags.includes(which.value.slice(4)))));
    shown.replaceChildren(...wanted.slice(0, most).map(([id, answers]) => caseNode(id, answers)));
    note.textContent = `${wanted.length} of ${every.length} ${plural(every.length, "case")}`;
    more.hidden = wanted.length <= most;
  };
  which.addEventListener("change", () => { most = CASES; draw(); });
  more.addEventListener("click", () => { most += CASES; draw(); });
  draw();
  return panel("Cases", "open one to see what was asked and answered", el("div", { class: "stack" }, el("div", { class: "row" }, labelled("Show", which), note), shown, more));
}

function caseNode(id, answers) {
  const made = el("details", {}, el("summary", {}, el("strong", {}, id), answers.map((one) => chip(`${one.variant} ${one.error ? "error" : one.score.toFixed(2)}`, one.error ? "bad" : one.passed ? "good" : "warn"))));
  made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) made.append(caseBody(answers)); });
  return made;
}

function caseBody(answers) {
  const [first] = answers, text = (name, value) => el("div", {}, el("p", { class: "note" }, name), el("pre", { class: "text" }, value));
  return el("div", { class: "stack" }, text("Asked", first.prompt), first.expected === null ? null : text("Wanted", first.expected),
    el("div", { class: "answers" }, answers.map((one) => el("div", { class: "stack" }, text(`${one.variant}${one.repeat ? `, time ${one.repeat + 1}` : ""}, ${seconds(one.seconds)}`, one.error ? `Error: ${one.error}` : one.answer),
      el("ul", { class: "advice" }, one.checks.map((check) => el("li", {}, chip(check.passed ? "pass" : "fail", check.passed ? "good" : "bad"), ` ${check.check} ${check.score.toFixed(2)} ${check.note}`)))))));
}
