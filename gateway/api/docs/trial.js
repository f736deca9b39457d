// A form that sends a request to this gateway and shows the answer as it comes.
import { beginning, bodyOf, resolve } from "./schemas.js";
import { el } from "./elements.js";

export function trial(method, path, operation, api, access) {
  const key = el("input", { type: "password", placeholder: "API key, where one is needed", "aria-label": "API key" });
  const address = el("input", { "aria-label": "path" });
  const answer = el("pre", {}, "the answer comes here");
  const body = bodyForm(operation, api);
  key.value = access.key;
  key.oninput = () => {
    access.key = key.value;
  };
  address.value = path;
  const ask = (changed) => {
    send(method, address.value, () => body.read(changed), access, answer);
  };
  const buttons = [button("Send", () => ask({}))];
  if (body.streams) buttons.push(button("Send, streamed", () => ask({ stream: true })));
  return [el("h3", {}, "Try it"), key, address, ...body.inputs, ...buttons, answer];
}

function button(text, act) {
  const made = el("button", {}, text);
  made.onclick = act;
  return made;
}

// What is sent: nothing, a file with its fields, or JSON.
function bodyForm(operation, api) {
  const body = bodyOf(operation.requestBody);
  if (!body) return { inputs: [], read: () => undefined };
  if (operation.requestBody.content["multipart/form-data"]) return uploadForm(resolve(body.schema, api));
  const text = el("textarea", { "aria-label": "body", spellcheck: "false" });
  text.value = JSON.stringify(body.example ?? beginning(body.schema, api), null, 2);
  const found = operation.responses["200"];
  const streams = Boolean(found && found.content && found.content["text/event-stream"]);
  const read = (changed) => (changed.stream ? JSON.stringify({ ...JSON.parse(text.value), ...changed }) : text.value);
  return { inputs: [text], read, streams };
}

function uploadForm(schema) {
  const inputs = Object.entries(schema.properties || {}).map(([name, { format, enum: choices }]) => {
    const input = el("input", { "aria-label": name, placeholder: name, type: format === "binary" ? "file" : "text" });
    if (choices) input.value = choices[0];
    return [name, input];
  });
  const read = () => {
    const form = new FormData();
    for (const [name, input] of inputs) {
      const given = input.type === "file" ? input.files[0] : input.value;
      if (given) form.append(name, given);
    }
    return form;
  };
  return { inputs: inputs.map(([, input]) => input), read };
}

async function send(method, address, read, access, answer) {
  answer.textContent = "…";
  try {
    const body = read();
    const headers = access.key ? { authorization: `Bearer ${access.key}` } : {};
    if (typeof body === "string") headers["content-type"] = "application/json";
    const found = await fetch(address, { method: method.toUpperCase(), headers, body });
    answer.textContent = `${found.status}\n`;
    await show(found, answer);
  } catch (error) {
    answer.textContent = String(error);
  }
}

async function show(found, answer) {
  const reader = found.body.pipeThrough(new TextDecoderStream()).getReader();
  let whole = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    whole += part.value;
    answer.textContent = `${found.status}\n${whole}`;
    answer.scrollTop = answer.scrollHeight;
  }
  const isJson = (found.headers.get("content-type") || "").startsWith("application/json");
  if (isJson) answer.textContent = `${found.status}\n${JSON.stringify(JSON.parse(whole), null, 2)}`;
}
