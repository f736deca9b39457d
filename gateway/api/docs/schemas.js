// What a schema of the document says: names of types, lists of fields, and a body to begin with.
import { el, words } from "./elements.js";

const BOUNDS = [["minimum", "≥"], ["maximum", "≤"], ["exclusiveMinimum", ">"]];
const EMPTY = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} };
const nameOf = (schema) => schema.$ref.split("/").pop();

// The content of a request or an answer that people write and read: JSON where there is some.
export function bodyOf(said) {
  const content = said && said.content;
  if (!content) return undefined;
  return content["application/json"] || content["multipart/form-data"] || Object.values(content)[0];
}

export function resolve(schema, api) {
  return schema && schema.$ref ? api.components.schemas[nameOf(schema)] : schema || {};
}

export function typeName(schema) {
  if (schema.$ref) return nameOf(schema);
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return [...new Set(choices.map(typeName))].filter((name) => name !== "null").join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `[${typeName(schema.items || {})}]`;
  const bounds = BOUNDS.filter(([name]) => schema[name] !== undefined).map(([name, sign]) => `${sign} ${schema[name]}`);
  return [schema.type || "any", ...bounds].join(" ");
}

// The fields of a schema as a list. Those of objects in it are written when their line is opened first.
export function schemaFields(schema, api, seen = []) {
  const whole = resolve(schema, api);
  const needed = whole.required || [];
  const fields = Object.entries(whole.properties || {});
  fields.sort(([one], [other]) => needed.includes(other) - needed.includes(one));
  const list = el("ul", { class: "fields" }, ...fields.map(([name, value]) => field(name, value, needed, api, seen)));
  return { list, known: Boolean(whole.properties), description: whole.description || "" };
}

function field(name, schema, needed, api, seen) {
  const line = el("span", {}, el("span", { class: "name" }, name), el("span", { class: "type" }, typeName(schema)));
  if (needed.includes(name)) line.append(el("span", { class: "need" }, "required"));
  const objects = objectsIn(schema).filter((part) => resolve(part, api).properties && !seen.includes(part.$ref));
  const about = schema.description || resolve(objectsIn(schema)[0], api).description;
  return el("li", {}, objects.length ? opened(line, objects, api, seen) : line,
    ...(about ? [el("div", { class: "about" }, ...words(about))] : []));
}

function opened(line, objects, api, seen) {
  const details = el("details", {}, el("summary", {}, line));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    for (const part of objects) {
      if (objects.length > 1) details.append(el("div", { class: "type" }, typeName(part)));
      details.append(schemaFields(part, api, [...seen, part.$ref]).list);
    }
  });
  return details;
}

function objectsIn(schema) {
  const choices = schema.anyOf || schema.oneOf;
  if (schema.$ref) return [schema];
  if (choices) return choices.flatMap(objectsIn);
  if (schema.items) return objectsIn(schema.items);
  return schema.properties ? [schema] : [];
}

// A body to begin with, where the document gives none: each required field, empty or with its first choice.
export function beginning(schema, api, depth = 0) {
  const whole = resolve(schema, api);
  const choices = whole.anyOf || whole.oneOf;
  if (whole.default !== undefined) return whole.default;
  if (whole.const !== undefined) return whole.const;
  if (whole.enum) return whole.enum[0];
  if (choices) return beginning(choices[0], api, depth);
  if (!whole.properties || depth > 4) return EMPTY[whole.type] ?? {};
  const needed = whole.required || [];
  return Object.fromEntries(needed.map((name) => [name, beginning(whole.properties[name] || {}, api, depth + 1)]));
}
