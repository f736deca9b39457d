// A request as code that runs: `fields` are [name, JSON text] of a chat completion, in order. No key is ever part of it.
import { asPython, asScript, holdsExactly, pretty } from "./raw_json.js";

const PATH = "/v1/chat/completions";
const KEY = "SLUICEGATE_API_KEY";
// What the clients of OpenAI know by name; anything else travels beside.
const KNOWN = new Set(["model", "messages", "temperature", "top_p", "max_tokens", "seed", "stop", "presence_penalty", "frequency_penalty", "response_format", "tools", "tool_choice"]);

export const bodyOf = (fields) => `{${fields.map(([name, raw]) => `${JSON.stringify(name)}:${raw}`).join(",")}}`;

// A quoted here-document takes every character as it is, and no line of JSON reads like its end.
export function asCurl(fields, origin, keyed) {
  const heads = [...(keyed ? [`-H "Authorization: Bearer $${KEY}"`] : []), "-H 'Content-Type: application/json'"];
  return `curl -sS '${origin}${PATH}' \\\n${heads.map((head) => `  ${head} \\\n`).join("")}  --data-binary @- <<'JSON'\n${pretty(bodyOf(fields))}\nJSON\n`;
}

export function asPythonClient(fields, origin, keyed) {
  const known = fields.filter(([name]) => KNOWN.has(name)), beside = fields.filter(([name]) => !KNOWN.has(name));
  const args = known.map(([name, raw]) => `  ${name}=${asPython(raw, 1)},\n`).join("") + (beside.length ? `  extra_body=${asPython(bodyOf(beside), 1)},\n` : "");
  return `# pip install openai\n${keyed ? "import os\n\n" : ""}from openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=${keyed ? `os.environ["${KEY}"]` : '"none"'})\n`
    + `answer = client.chat.completions.create(\n${args})\nprint(answer.choices[0].message.to_json())\n`;
}

export function asTypeScript(fields, origin, keyed) {
  const warning = holdsExactly(bodyOf(fields)) ? "" : "// Some numbers below have more digits than JavaScript keeps: send the form for curl or Python instead.\n";
  return `// npm install openai\n${warning}import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(`${origin}/v1`)}, apiKey: ${keyed ? `process.env.${KEY}` : '"none"'} });\n`
    + `const request: OpenAI.ChatCompletionCreateParamsNonStreaming & Record<string, unknown> = ${asScript(bodyOf(fields))};\nconst answer = await client.chat.completions.create(request);\nconsole.log(JSON.stringify(answer.choices[0].message, null, 2));\n`;
}
