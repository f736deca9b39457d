// LangChain for JavaScript.
import assert from "node:assert/strict";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { CLARA, EMBEDDER, PLAIN, QUESTION, REAL, SCRIPTED, feature, run } from "./features.mjs";

const chat = (url, model, more = {}) =>
  new ChatOpenAI({ model, apiKey: "none", maxRetries: 0, configuration: { baseURL: `${url}/v1` }, ...more });
const person = z.object({ name: z.string(), city: z.string() });

await feature("plain", async () => assert.equal((await chat(SCRIPTED, "scripted").invoke("Say it.")).content, PLAIN));

await feature("streamed", async () => {
  const pieces = [];
  for await (const piece of await chat(SCRIPTED, "scripted").stream("Say it.")) pieces.push(piece.content);
  assert.equal(pieces.join(""), PLAIN);
});

await feature("schema", async () => {
  const model = chat(REAL, "bundled", { temperature: 0 }).withStructuredOutput(person, { method: "jsonSchema" });
  assert.deepEqual(await model.invoke(QUESTION), CLARA);
});

await feature("schema by a function", async () => {
  const model = chat(REAL, "bundled", { temperature: 0 }).withStructuredOutput(person, { method: "functionCalling" });
  assert.deepEqual(await model.invoke(QUESTION), CLARA);
});

await feature("tools", async () => {
  const weather = tool(async () => "sunny", { name: "get_weather", schema: z.object({ city: z.string() }) });
  const found = await chat(SCRIPTED, "scripted").bindTools([weather]).invoke(QUESTION);
  assert.deepEqual(found.tool_calls[0].args, { city: "Oslo" });
});

await feature("responses API", async () => {
  const found = await chat(SCRIPTED, "scripted", { useResponsesApi: true }).invoke("Say it.");
  assert.equal(found.text, PLAIN);
});

await feature("embeddings", async () => {
  const made = new OpenAIEmbeddings({ model: EMBEDDER, apiKey: "none", configuration: { baseURL: `${REAL}/v1` } });
  assert.equal((await made.embedQuery("one")).length, 32);
});

await feature("errors", () => chat(REAL, "nope").invoke("x"), { raises: "no model 'nope'" });

run();
