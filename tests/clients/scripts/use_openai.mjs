// openai for JavaScript: structured output, tools, streams, errors. Arguments: a real gateway, a scripted one.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [real, scripted] = process.argv.slice(2, 4).map(url => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }));
const messages = [{ role: "user", content: "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus." }];
const clara = { name: "Clara Winther", city: "Aarhus" };
const schema = {
  type: "object",
  properties: { name: { type: "string" }, city: { type: "string" } },
  required: ["name", "city"],
  additionalProperties: false,
};
const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema } };
const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];

const whole = await real.chat.completions.parse({ model: "bundled", messages, response_format, temperature: 0 });
assert.deepEqual(JSON.parse(whole.choices[0].message.content), clara);
const stream = real.chat.completions.stream({ model: "bundled", messages, response_format, temperature: 0 });
assert.deepEqual(JSON.parse(await stream.finalContent()), clara);
const answer = await real.responses.create({
  model: "bundled", input: messages, temperature: 0, text: { format: { type: "json_schema", name: "person", strict: true, schema } },
});
assert.deepEqual(JSON.parse(answer.output_text), clara);

const first = await scripted.chat.completions.create({ model: "scripted", messages, tools });
const [call] = first.choices[0].message.tool_calls;
assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo" });
const history = [...messages, first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
const live = scripted.chat.completions.stream({ model: "scripted", messages: history, tools });
assert.equal(await live.finalContent(), "It is sunny in Oslo.");

await assert.rejects(real.chat.completions.create({ model: "nope", messages }), error => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
console.log("ok");
