// How requests end, in words and colours that every page shares.
import { chip } from "./dom.js";

export const ENDINGS = { answered: "answered", refused: "refused by a rail", rejected: "caller's mistake", failed: "failed", left: "caller left" };
const KINDS = { answered: "good", refused: "warn", rejected: "warn", failed: "bad", left: "" };
const VERDICTS = { pass: "good", redact: "warn", escalate: "warn", block: "bad", failed: "bad" };

const said = (line) => (line.outcome === "answered" && line.ended !== "length" ? line.ended : line.ended.replaceAll("_", " "));
export const ended = (line) => chip(`${said(line)}${line.status && line.status !== 200 ? ` ${line.status}` : ""}${line.cached ? ", cached" : ""}`, line.ended === "length" ? "warn" : KINDS[line.outcome] ?? "bad");
export const verdict = ([, rail, found]) => chip(`${rail}: ${found}`, VERDICTS[found] ?? "warn");

// Billionths of the currency as money: as many digits as say something.
export function money(nanos, currency = "") {
  if (nanos === null || nanos === undefined) return "–";
  const value = nanos / 1e9, digits = value === 0 || value >= 100 ? 2 : value >= 0.01 ? 4 : 6;
  return `${value.toFixed(digits)}${currency ? ` ${currency}` : ""}`;
}
