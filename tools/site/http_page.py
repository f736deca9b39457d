"""The page of the HTTP API, made from the OpenAPI document that the gateway serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.gateway import create_app, load
from sluicegate.gateway.api.openapi.document import ERRORS
from tools.site.tables import table

Tree = Mapping[str, Any]
MOST_FIELDS = 16
HEAD = """# HTTP

Made from the OpenAPI document that a gateway serves at `/openapi.json` and shows at `/docs`. Every example is a
request that the bundled model answers as it stands. [Fields](../fields.md) has each field of a body, in every dialect;
errors are told in [the API](../api.md#refusals-and-errors). A star marks fields that must be given.

What a route answers besides 200 is said with the route where it is its own; these are common to all but the probes:
"""
SHARED = (*ERRORS.items(), ("200", "Successful Response"), ("200", "done"))


def document() -> dict[str, Any]:
    return create_app(load(None, {})).openapi()


def page() -> str:
    found = document()
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in found["tags"]}
    schemas = found["components"]["schemas"]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]] += _operation(method.upper(), path, operation, schemas)
    told = {tag["name"]: tag["description"] for tag in found["tags"]}
    lines = [line for tag, below in by_tag.items() for line in (f"## {tag.capitalize()}\n\n{told[tag]}.\n", *below)]
    shared = table(("status", "when"), [(status, _sentence(text)) for status, text in ERRORS.items()])
    return "\n".join([HEAD, *shared, *lines])


def _operation(method: str, path: str, operation: Tree, schemas: Tree) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{_sentence(operation['summary'])} {_sentence(operation.get('description', ''))}\n"
    if parameters := operation.get("parameters"):
        yield from table(("parameter", "in", "meaning"), (_parameter(one) for one in parameters))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from _fields(content.get("schema", {}), schemas)
        yield from _example(path, kind, content)
    told = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    own = [row for row in told if row not in SHARED]
    if own:
        yield from table(("status", "when"), [(status, _sentence(text)) for status, text in own])


def _parameter(one: Tree) -> tuple[str, str, str]:
    needed = " Must be given." if one.get("required") else ""
    return f"`{one['name']}`", one["in"], _sentence(one.get("description", "")) + needed


def _fields(schema: Tree, schemas: Tree) -> Iterator[str]:
    """Yield the fields of a small body. Those of large ones are on a page of their own."""
    found = _resolved(schema, schemas)
    properties = found.get("properties", {})
    if 0 < len(properties) <= MOST_FIELDS:
        required = found.get("required", ())
        rows = [
            (
                f"`{name}`" + (" *" if name in required else ""),
                _type(one, schemas),
                _sentence(one.get("description", "")),
            )
            for name, one in properties.items()
        ]
        yield from table(("field", "takes", "meaning"), rows)


def _resolved(schema: Tree, schemas: Tree) -> Tree:
    while "$ref" in schema or len(schema.get("allOf", ())) == 1:
        schema = schema["allOf"][0] if "allOf" in schema else schemas[schema["$ref"].rpartition("/")[2]]
    return schema


def _type(schema: Tree, schemas: Tree) -> str:
    schema = _resolved(schema, schemas)
    if "enum" in schema or "const" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one, schemas) for one in schema["anyOf"]))
    return str(schema.get("type", "anything"))


def _example(path: str, kind: str, content: Tree) -> Iterator[str]:
    example = content.get("example")
    if kind == "application/json" and example is not None:
        body = json.dumps(example, ensure_ascii=False, indent=2).replace("'", "'\\''")
        call = f"curl -s http://127.0.0.1:8000{path} -H 'content-type: application/json'"
        yield f"```sh\n{call} -d '{body}'\n```\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else ""
