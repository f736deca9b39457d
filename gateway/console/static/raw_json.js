// JSON as text. Numbers and the order of keys stay as they were written: JSON.parse would round what has more than
// fifteen digits, and a schema would be another one.
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/gy;

// Raises what JSON.parse raises where `text` is no JSON.
export function tokensOf(text) {
  JSON.parse(text);
  return [...text.matchAll(TOKEN)].map(([token]) => token).filter((token) => token.trim());
}

export const compact = (text) => tokensOf(text).join("");

const CONSTANTS = { true: "True", false: "False", null: "None" };
// A string of JSON may spell a character in ways that other languages read as something else (`\/`, surrogate pairs).
const respelled = (token) => (token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token);
const asIs = (token) => token;
const python = (token) => CONSTANTS[token] ?? respelled(token);
const script = (token, isKey) => (isKey && JSON.parse(token) === "__proto__" ? '["__proto__"]' : respelled(token));

function written(text, spell, indent, trailing) {
  const tokens = tokensOf(text), out = [];
  let depth = indent;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, at) => {
    const next = tokens[at + 1], before = tokens[at - 1];
    if (token === "{" || token === "[") {
      out.push(token);
      depth++;
      if (next !== "}" && next !== "]") out.push(line());
    } else if (token === "}" || token === "]") {
      depth--;
      if (before !== "{" && before !== "[") out.push(trailing, line());
      out.push(token);
    } else if (token === ",") out.push(",", line());
    else if (token === ":") out.push(": ");
    else out.push(spell(token, next === ":"));
  });
  return out.join("");
}

export const pretty = (text, indent = 0) => written(text, asIs, indent, "");
export const asPython = (text, indent = 0) => written(text, python, indent, ",");
export const asScript = (text, indent = 0) => written(text, script, indent, ",");

// Whether JavaScript's numbers hold every number of the text.
export function holdsExactly(text) {
  return tokensOf(text).every((token) => !/^-?\d/.test(token) || plain(token) === plain(String(Number(token))));
}

function plain(number) {
  const [, sign, whole, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? [null, "", number];
  const digits = `${whole}${part}`.replace(/^0+/, ""), trimmed = digits.replace(/0+$/, "");
  return trimmed ? `${sign}${trimmed}e${Number(power) - part.length + digits.length - trimmed.length}` : "0";
}
