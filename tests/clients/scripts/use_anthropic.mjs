// Anthropic's client for JavaScript.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { CITY, CLARA, feature, PLAIN, QUESTION, REAL, run, SAID, SCHEMA, SCRIPTED } from "./features.mjs";

const client = (baseURL) => new Anthropic({ baseURL, apiKey: "none", maxRetries: 0 });
const scripted = client(SCRIPTED), real = client(REAL);
const asked = (model) => ({ model, max_tokens: 300, messages: SAID });
const tools = [{ name: "get_weather", input_schema: CITY }];

await feature("messages", async () => {
  const found = await scripted.messages.create(asked("scripted"));
  assert.equal(found.content[0].text, PLAIN);
  assert.equal(found.stop_reason, "end_turn");
});
await feature("messages, streamed", async () => {
  const stream = scripted.messages.stream(asked("scripted"));
  const pieces = [];
  stream.on("text", (text) => pieces.push(text));
  const found = await stream.finalMessage();
  assert.equal(pieces.join(""), PLAIN);
  assert.equal(found.content[0].text, PLAIN);
});
await feature("messages, tools, streamed", async () => {
  const found = await scripted.messages.stream({ ...asked("scripted"), tools }).finalMessage();
  const call = found.content.find((block) => block.type === "tool_use");
  assert.equal(call.name, "get_weather");
  assert.equal(typeof call.input.city, "string");
  assert.equal(found.stop_reason, "tool_use");
});
await feature("messages, schema", async () => {
  const output_config = { format: { type: "json_schema", schema: SCHEMA } };
  const found = await real.messages.create({ ...asked("bundled"), temperature: 0, output_config });
  assert.deepEqual(JSON.parse(found.content[0].text), CLARA);
});
await feature("messages, tool demanded", async () => {
  const tool_choice = { type: "tool", name: "person" };
  const person = [{ name: "person", input_schema: SCHEMA }];
  const found = await real.messages.create({ ...asked("bundled"), temperature: 0, tools: person, tool_choice });
  assert.deepEqual(found.content.find((block) => block.type === "tool_use").input, CLARA);
});
await feature("count_tokens", async () => {
  assert.ok((await real.messages.countTokens({ model: "bundled", messages: SAID })).input_tokens > 5);
});
await feature("errors", () => real.messages.create(asked("nope")), { raises: "no model 'nope'" });
run();
