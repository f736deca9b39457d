import { el, facts, ms, percent } from "./dom.js";
import { table } from "./tables.js";

function kind(token) {
  if (token.forced) return "forced";
  const share = token.masked ?? 0;
  const masked = share >= 0.99 ? "m3" : share >= 0.6 ? "m2" : share > 0 ? "m1" : "m0";
  const p = token.logprob === null ? 1 : Math.exp(token.logprob);
  return `${masked} ${p < 0.1 ? "doubtful" : p < 0.5 ? "unsure" : ""}`;
}

const told = (token) => token.forced ? "forced by the grammar" :
  `${token.masked === null ? "no mask" : `${percent(token.masked)} of the vocabulary refused`}, ${token.logprob === null ? "" : `probability ${percent(Math.exp(token.logprob))}`}`;
const spelled = (text) => text.replace(/\n/g, "⏎\n");

// Which tokens were forced, how much of the vocabulary a mask refused, how sure the model was.
export function tokenView(tokens) {
  const detail = el("div", { "aria-live": "polite" }, el("p", { class: "note" }, "Point at a token, or move with the arrow keys."));
  const say = (token) => detail.replaceChildren(facts([["Token", el("code", {}, JSON.stringify(token.token))], ["How", told(token)], ["Log probability", token.logprob === null ? null : token.logprob.toFixed(3)], ["At", ms(token.ms)]]));
  const shown = tokens.map((token, at) => el("span", { class: `token ${kind(token)}`, tabindex: at ? "-1" : "0", role: "listitem", "aria-label": `${JSON.stringify(token.token)}, ${told(token)}`,
    on: { focus: () => say(token), mouseenter: () => say(token) } }, spelled(token.token)));
  const line = el("div", { class: "tokens", role: "list", "aria-label": "Tokens", on: { keydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], at = shown.indexOf(document.activeElement);
    if (!step || at < 0 || !shown[at + step]) return;
    event.preventDefault();
    shown[at].tabIndex = -1;
    shown[at + step].tabIndex = 0;
    shown[at + step].focus();
  } } }, shown);
  const forced = tokens.filter((t) => t.forced).length;
  const rows = tokens.map((t) => el("tr", {}, el("td", { class: "mono" }, JSON.stringify(t.token)), el("td", {}, t.forced ? "forced" : "drawn"), el("td", { class: "number" }, t.masked === null ? "–" : percent(t.masked)), el("td", { class: "number" }, t.logprob === null ? "–" : t.logprob.toFixed(3)), el("td", { class: "number" }, ms(t.ms))));
  return el("div", { class: "stack" },
    el("p", { class: "key" }, el("span", {}, el("span", { class: "token forced" }, "forced"), ` ${forced} of ${tokens.length}, never drawn`), el("span", {}, el("span", { class: "token m3" }, "masked"), " the darker, the more was refused"),
      el("span", {}, el("span", { class: "token unsure" }, "unsure"), " below 50 %"), el("span", {}, el("span", { class: "token doubtful" }, "doubtful"), " below 10 %")),
    line, detail,
    el("details", {}, el("summary", {}, "As a table"), table("Tokens", [["Token"], ["How"], ["Refused", "number"], ["Logprob", "number"], ["At", "number"]], rows, "")));
}
