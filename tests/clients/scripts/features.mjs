// What a script asks of its client, as features.py has it: `await feature(name, part, {refused, raises})`, then `run()`.
const given = JSON.parse(process.argv[2] ?? "{}");
export const REAL = given.real, SCRIPTED = given.scripted, MCP = given.mcp;
export const EMBEDDER = "tiny-embedder";
export const QUESTION = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus.";
export const SAID = [{ role: "user", content: QUESTION }];
export const CLARA = { name: "Clara Winther", city: "Aarhus" };
export const SCHEMA = {
  type: "object", properties: { name: { type: "string" }, city: { type: "string" } },
  required: ["name", "city"], additionalProperties: false,
};
export const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const WEATHER = { type: "function", function: { name: "get_weather", parameters: CITY } };
export const SUNNY = "It is sunny in Oslo.", PLAIN = "Plainly said.";
let failed = false;

function tell(feature, outcome, words) {
  failed ||= outcome === "fails";
  console.log(JSON.stringify({ feature, outcome, words }));
}

export async function feature(name, part, { refused = "", raises = "" } = {}) {
  const expected = refused || raises;
  try {
    await part();
  } catch (error) {
    const words = `${error.name}: ${error.message} ${error.responseBody ?? ""} ${error.data ? JSON.stringify(error.data) : ""}`.replace(/\s+/g, " ");
    if (expected && words.includes(expected)) return tell(name, refused ? "refused" : "works", refused);
    console.error(error);
    return tell(name, "fails", words.slice(0, 300));
  }
  if (expected) return tell(name, "fails", `was answered, and '${expected}' was expected`);
  tell(name, "works", "");
}

export function run() {
  process.exit(failed ? 1 : 0);
}
