// The protocol's SDK, as a client of the gateway.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { feature, MCP, run } from "./features.mjs";

async function withClient(work) {
  const client = new Client({ name: "tried", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${MCP}/mcp`)));
  try { await work(client); } finally { await client.close(); }
}

const called = (part, args) => withClient(async (client) => {
  const { name } = (await client.listTools()).tools.find((tool) => part.test(tool.name));
  const found = await client.callTool({ name, arguments: args });
  assert.ok(!found.isError, JSON.stringify(found));
});

await feature("tools listed", () => withClient(async (client) => {
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  assert.ok(names.some((name) => name.startsWith("notes")) && names.some((name) => name.includes("screen")), names);
}));
await feature("tool of the gateway called", () => called(/screen/, { text: "a harmless word" }));
await feature("tool of a server called", () => called(/^notes.*list/, {}));
await feature("errors", () => withClient((client) => client.callTool({ name: "nope", arguments: {} })),
  { raises: "no tool 'nope'" });
run();
