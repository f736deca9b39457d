// openai for JavaScript.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { CLARA, EMBEDDER, PLAIN, REAL, SAID, SCHEMA, SCRIPTED, SUNNY, WEATHER, feature, run } from "./features.mjs";

const [real, scripted] = [REAL, SCRIPTED].map(url => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }));
const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema: SCHEMA } };
const cold = { model: "bundled", messages: SAID, temperature: 0 };

await feature("chat, schema", async () => {
  const whole = await real.chat.completions.parse({ ...cold, response_format });
  assert.deepEqual(JSON.parse(whole.choices[0].message.content), CLARA);
});

await feature("chat, schema, streamed", async () => {
  const stream = real.chat.completions.stream({ ...cold, response_format });
  assert.deepEqual(JSON.parse(await stream.finalContent()), CLARA);
});

await feature("chat, tools, streamed", async () => {
  const first = await scripted.chat.completions.create({ model: "scripted", messages: SAID, tools: [WEATHER] });
  const [call] = first.choices[0].message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo" });
  const history = [...SAID, first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
  const live = scripted.chat.completions.stream({ model: "scripted", messages: history, tools: [WEATHER] });
  assert.equal(await live.finalContent(), SUNNY);
});

await feature("tools, run by the client", async () => {
  const tool = { type: "function", function: { ...WEATHER.function, function: async () => "sunny", parse: JSON.parse } };
  const runner = scripted.chat.completions.runTools({ model: "scripted", messages: SAID, tools: [tool] });
  assert.equal(await runner.finalContent(), SUNNY);
});

await feature("responses, schema", async () => {
  const format = { type: "json_schema", name: "person", strict: true, schema: SCHEMA };
  const answer = await real.responses.create({ model: "bundled", input: SAID, temperature: 0, text: { format } });
  assert.deepEqual(JSON.parse(answer.output_text), CLARA);
});

await feature("responses, streamed", async () => {
  const stream = scripted.responses.stream({ model: "scripted", input: "Say it." });
  assert.equal((await stream.finalResponse()).output_text, PLAIN);
});

await feature("embeddings", async () => {
  const found = await real.embeddings.create({ model: EMBEDDER, input: ["one"] });
  assert.equal(found.data[0].embedding.length, 32);
});

await feature("errors", async () => {
  await assert.rejects(
    real.chat.completions.create({ model: "nope", messages: SAID }),
    error => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
  );
});

run();
