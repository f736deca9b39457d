// The Vercel AI SDK: its providers for OpenAI, for servers like OpenAI's, and for Anthropic.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, embed, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { CITY, CLARA, EMBEDDER, PLAIN, QUESTION, REAL, SCHEMA, SCRIPTED, SUNNY, feature, run } from "./features.mjs";

const openai = url => createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const compatible = url =>
  createOpenAICompatible({ name: "sluicegate", baseURL: `${url}/v1`, apiKey: "none", supportsStructuredOutputs: true });
const anthropic = url => createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" });
const plain = { maxRetries: 0, maxOutputTokens: 200 };
const tools = {
  get_weather: tool({ description: "The weather in a city.", inputSchema: jsonSchema(CITY), execute: async () => "sunny" }),
};

async function text(model) {
  assert.equal((await generateText({ model, prompt: "Say it.", ...plain })).text, PLAIN);
}

async function streamed(model) {
  const pieces = [];
  for await (const piece of streamText({ model, prompt: "Say it.", ...plain }).textStream) pieces.push(piece);
  assert.equal(pieces.join(""), PLAIN);
  assert.ok(pieces.length > 1);
}

async function object(model) {
  const output = Output.object({ schema: jsonSchema(SCHEMA) });
  const found = await generateText({ model, prompt: QUESTION, temperature: 0, output, ...plain });
  assert.deepEqual(found.output, CLARA);
}

async function partial(model) {
  const output = Output.object({ schema: jsonSchema(SCHEMA) });
  const stream = streamText({ model, prompt: QUESTION, temperature: 0, output, ...plain });
  const parts = [];
  for await (const part of stream.partialOutputStream) parts.push(part);
  assert.deepEqual(parts.at(-1), CLARA);
}

async function agent(model) {
  const found = await generateText({ model, prompt: QUESTION, tools, stopWhen: stepCountIs(3), ...plain });
  assert.equal(found.text, SUNNY);
}

async function agentStreamed(model) {
  const stream = streamText({ model, prompt: QUESTION, tools, stopWhen: stepCountIs(3), ...plain });
  assert.equal(await stream.text, SUNNY);
}

await feature("openai, chat, text", () => text(openai(SCRIPTED).chat("scripted")));
await feature("openai, chat, streamed", () => streamed(openai(SCRIPTED).chat("scripted")));
await feature("openai, chat, object", () => object(openai(REAL).chat("bundled")));
await feature("openai, chat, agent with a tool", () => agent(openai(SCRIPTED).chat("scripted")));
await feature("openai, responses, text", () => text(openai(SCRIPTED)("scripted")));
await feature("openai, responses, streamed", () => streamed(openai(SCRIPTED)("scripted")));
await feature("openai, responses, object", () => object(openai(REAL)("bundled")));
await feature("openai, responses, agent with a tool", () => agent(openai(SCRIPTED)("scripted")));
await feature("openai, responses, agent with a tool, streamed", () => agentStreamed(openai(SCRIPTED)("scripted")));
await feature("openai, completions", () => text(openai(SCRIPTED).completion("scripted")));
await feature("openai, embeddings", async () => {
  const found = await embed({ model: openai(REAL).embedding(EMBEDDER), value: "one", maxRetries: 0 });
  assert.equal(found.embedding.length, 32);
});
await feature("openai-compatible, text", () => text(compatible(SCRIPTED)("scripted")));
await feature("openai-compatible, streamed", () => streamed(compatible(SCRIPTED)("scripted")));
await feature("openai-compatible, object", () => object(compatible(REAL)("bundled")));
await feature("openai-compatible, object, streamed", () => partial(compatible(REAL)("bundled")));
await feature("openai-compatible, agent with a tool", () => agent(compatible(SCRIPTED)("scripted")));
await feature("anthropic, text", () => text(anthropic(SCRIPTED)("scripted")));
await feature("anthropic, streamed", () => streamed(anthropic(SCRIPTED)("scripted")));
await feature("anthropic, object", () => object(anthropic(REAL)("bundled")));
await feature("anthropic, object, streamed", () => partial(anthropic(REAL)("bundled")));
await feature("anthropic, agent with a tool", () => agent(anthropic(SCRIPTED)("scripted")));
await feature("anthropic, agent with a tool, streamed", () => agentStreamed(anthropic(SCRIPTED)("scripted")));
const NOPE = { raises: "no model 'nope'" };
await feature("openai, errors", () => text(openai(REAL).chat("nope")), NOPE);
await feature("openai-compatible, errors", () => text(compatible(REAL)("nope")), NOPE);
await feature("anthropic, errors", () => text(anthropic(REAL)("nope")), NOPE);
run();
