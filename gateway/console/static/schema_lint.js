// What `sluicegate lint` says of the schema in an editor, while somebody writes it.
import { ask } from "./api.js";
import { chip, el, percent, plural } from "./dom.js";
import { compact } from "./raw_json.js";

const WAIT_MS = 450;
const SHOWN = 12;

function gain(measured) {
  if (!measured) return "a matter of cost or of certainty";
  const sure = measured.low > 0 || measured.high < 0;
  return `on the bundled model ${percent(measured.before)} → ${percent(measured.after)} of fields right${sure ? "" : ", which may be chance"}`;
}

function adviceNodes(report) {
  const rules = new Map();
  for (const one of report.advice) rules.set(one.rule, [...(rules.get(one.rule) ?? []), one]);
  return [...rules].map(([rule, found]) => el("details", {}, el("summary", {}, el("strong", {}, rule), ` at ${found.length} ${found.length === 1 ? "place" : "places"}; ${gain(found[0].measured)}`),
    el("ul", {}, found.slice(0, SHOWN).map((one) => el("li", {}, el("code", {}, one.pointer || "the whole"), ` ${one.text}`)), found.length > SHOWN ? el("li", {}, `and ${found.length - SHOWN} more`) : null)));
}

function told(report) {
  const costs = `${report.properties} ${plural(report.properties, "property", "properties")}, ${report.depth} ${plural(report.depth, "level")} deep; their names cost ${report.key_tokens} ${plural(report.key_tokens, "token")}`;
  return [el("p", {}, report.serves ? chip("can be served", "good") : chip("cannot be served", "bad"), " ", report.serves ? costs : report.error), report.not_enforced.map((note) => el("p", {}, chip("not enforced", "warn"), ` ${note}`)), ...(report.serves ? adviceNodes(report) : []),
    report.serves && !report.advice.length ? el("p", { class: "note" }, "Nothing to advise.") : null];
}

// `changed()` after every change of the editor; the newest text wins.
export function schemaLint(editor, signal) {
  const shown = el("div", { class: "advice", "aria-live": "polite", id: "schema-lint" });
  let timer = null, running = new AbortController();
  const put = (...nodes) => shown.replaceChildren(...nodes.flat(Infinity).filter(Boolean));
  const read = async () => {
    running.abort();
    const mine = running = new AbortController(), text = editor.value.trim();
    if (!text) return put(el("p", { class: "note" }, "No schema: the answer is free text."));
    let raw;
    try { raw = compact(text); } catch (error) { return put(el("p", {}, chip("not JSON", "bad"), ` ${error.message}`)); }
    try {
      const report = await ask("/admin/lint", { method: "POST", raw: `{"schema":${raw}}`, signal: AbortSignal.any([mine.signal, signal]) });
      if (!mine.signal.aborted) put(told(report));
    } catch (error) { if (!mine.signal.aborted && !signal.aborted) put(el("p", {}, chip("not linted", "warn"), ` ${error.message}`)); }
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  return { shown, now: read, changed: () => { clearTimeout(timer); timer = setTimeout(read, WAIT_MS); } };
}
