"""Requests whose fields stand in the messages, in the manners of the clients that write them there.

Each takes the messages and a question and returns messages that say what to answer, for a request without a schema of
its own: the names in words, a template of types, a JSON Schema (as instructor's JSON mode and LangChain's parsers put
it), or numbered output fields (as DSPy's JSON adapter does).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.engine.text.prompt import schema_sketch
from training.schemas import Question

Messages = list[dict[str, str]]
_PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "null": "None"}


def prompted(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    """Put the fields of `question` into the messages, in one manner or another."""
    manners = [_schema_before, _schema_before, _schema_after]
    if _is_plain(question):
        manners += [_in_words, _in_words, _as_template, _as_template, _as_output_fields]
    return rng.choice(manners)(messages, question, rng)


def _is_plain(question: Question) -> bool:
    """Return whether `question` is flat, and every property is answered: a list of names says nothing about the
    rest."""
    leaves = {path for path, _ in question.kinds}
    return leaves == set(question.schema["properties"]) and "null" not in question.answer


def _in_words(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    quote = rng.choice(["{}", "{}", "`{}`", "'{}'", '"{}"'])
    answer = json.loads(question.answer)
    parts = question.schema["properties"].items()
    keys = [quote.format(key) + _told(part, answer[key], rng) for key, part in parts]
    named = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 and rng.random() < 0.7 else ", ".join(keys)
    wordings = [
        "Return JSON with {}.",
        "Answer in JSON with the keys {}.",
        "Return a JSON object with the fields {}.",
        "Respond with a JSON object with {}.",
        "Output JSON with keys: {}",
        "Give me {} as JSON.",
        "Extract {} and return them as a JSON object.",
        "Reply in JSON format using these keys: {}.",
        "Use JSON with the following keys: {}",
        "JSON keys: {}",
    ]
    return _placed(messages, rng.choice(wordings).format(named), rng)


def _told(schema: dict[str, Any], value: Any, rng: random.Random) -> str:
    """Say in brackets what the name of a property does not say and its answer depends on; mostly nothing."""
    told, notes = _without_null(schema), []
    if options := told.get("enum"):
        listed = [str(option) for option in options]
        notes.append(rng.choice(["one of {}", "one of: {}", "{}", "allowed: {}"]).format(_either(listed, rng)))
    elif told.get("format") == "date":
        notes.append(rng.choice(["YYYY-MM-DD", "ISO date", "yyyy-mm-dd", "as an ISO 8601 date"]))
    elif rng.random() < 0.5 or told.get("type") in ("boolean", "array") or _reads_as_number(value):
        notes.append(_IN_WORDS[told.get("type", "string")])
    if told.get("description"):
        notes.append(told["description"])
    return rng.choice([" ({})", " ({})", " [{}]"]).format(", ".join(notes)) if notes else ""


_IN_WORDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
_IN_WORDS |= {"array": "a list", "object": "an object"}


def _reads_as_number(value: Any) -> bool:
    """Return whether `value` is a string of digits and marks, which nobody would expect to be a string without being
    told."""
    return isinstance(value, str) and not re.search(r"[A-Za-z]{4}", value) and any(c.isdigit() for c in value)


def _either(options: list[str], rng: random.Random) -> str:
    joined = rng.choice([", ", ", ", " / ", "|", "; "]).join(options)
    return f"{', '.join(options[:-1])} or {options[-1]}" if len(options) > 1 and rng.random() < 0.3 else joined


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a union with null that is not null, with the description beside it."""
    for part in schema.get("anyOf", ()):
        if part != {"type": "null"}:
            return {**part, **{key: value for key, value in schema.items() if key != "anyOf"}}
    if isinstance(schema.get("type"), list):
        return {**schema, "type": next(kind for kind in schema["type"] if kind != "null")}
    return schema


def _as_template(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    lines = [f"{json.dumps(key)}: {_type(part, rng)}" for key, part in question.schema["properties"].items()]
    body = "{\n  " + ",\n  ".join(lines) + "\n}" if rng.random() < 0.4 else "{" + ", ".join(lines) + "}"
    wordings = [
        "Return JSON in this format: {}",
        "Answer with JSON like this:\n{}",
        "Output format:\n{}",
        "Respond only with JSON of this shape:\n{}",
        "Use this JSON structure: {}",
        "Fill in this JSON: {}",
    ]
    return _placed(messages, rng.choice(wordings).format(body), rng)


def _type(schema: dict[str, Any], rng: random.Random) -> str:
    sketch = schema_sketch(schema)
    if note := _without_null(schema).get("description"):
        return f"{sketch} ({note})"
    return rng.choice([sketch, sketch, f'"<{sketch}>"', f'"{sketch}"', f"<{sketch}>"]) if '"' not in sketch else sketch


def _schema_before(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    """Put the schema into a system message, as instructor writes it."""
    opening = rng.choice(
        [
            "As a genius expert, your task is to understand the content and provide the parsed objects in json that "
            "match the following json_schema:\n\n{}\n\n"
            "Make sure to return an instance of the JSON, not the schema itself",
            "Answer with JSON that matches this JSON Schema:\n{}",
            "You output JSON. It must conform to this schema: {}",
            "Here's a JSON schema to follow:\n<schema>\n{}\n</schema>\nReturn a JSON object that fits it.",
            "Extract the data as JSON with this schema:\n{}",
        ]
    )
    said = opening.replace("{}", _written(question, rng))
    if messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{said}"}, *messages[1:]]
    return [{"role": "system", "content": said}, *messages]


def _schema_after(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    """Put the schema into the user's message, as LangChain's output parsers and plain scripts write it."""
    wordings = [
        "The output should be formatted as a JSON instance that conforms to the JSON schema below.\n\n"
        "Here is the output schema:\n```\n{}\n```",
        "Return a JSON object that matches this schema:\n{}",
        "JSON schema:\n```json\n{}\n```",
        "Respond in JSON according to this schema: {}",
    ]
    return _placed(messages, rng.choice(wordings).replace("{}", _written(question, rng)), rng)


def _written(question: Question, rng: random.Random) -> str:
    schema = _as_pydantic(question.schema) if rng.random() < 0.6 else question.schema
    indent = 2 if len(question.kinds) <= 3 and rng.random() < 0.5 else None
    return json.dumps(schema, ensure_ascii=False, indent=indent)


def _as_pydantic(schema: dict[str, Any]) -> dict[str, Any]:
    """Put properties first, each with a title, the way `model_json_schema` writes a model."""
    found = dict(schema)
    found.pop("additionalProperties", None)
    titled = {
        key: {**part, "title": key.replace("_", " ").title()} if "$ref" not in part else part
        for key, part in found.pop("properties").items()
    }
    kind, title = found.pop("type"), found.pop("title", "Answer")
    return {**found, "properties": titled, "title": title, "type": kind}


def _as_output_fields(messages: Sequence[dict[str, str]], question: Question, rng: random.Random) -> Messages:
    """List input and output fields by number, the input under a heading, as DSPy's JSON adapter writes them."""
    name = rng.choice(["text", "sentence", "document", "review", "message", "question", "email", "input"])
    fields = list(question.schema["properties"].items())
    listed = "\n".join(f"{i}. `{key}` ({_python(part)}):{_desired(part)}" for i, (key, part) in enumerate(fields, 1))
    shape = "{\n" + ",\n".join(f'  "{key}": "{{{key}}}"' for key, _ in fields) + "\n}"
    system = (
        f"Your input fields are:\n1. `{name}` (str):\nYour output fields are:\n{listed}\n"
        f"Outputs will be a JSON object with the following fields.\n\n{shape}"
    )
    order = ", then ".join(f"`{key}`" for key, _ in fields)
    text = messages[-1]["content"]
    user = f"[[ ## {name} ## ]]\n{text}\n\nRespond with a JSON object in the following order of fields: {order}."
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _desired(schema: dict[str, Any]) -> str:
    """Return the description as DSPy writes it, and what `str` does not say of a date."""
    note = schema.get("description", "")
    date = "an ISO 8601 date" if _without_null(schema).get("format") == "date" else ""
    return f" {', '.join(filter(None, (note, date)))}" if note or date else ""


def _python(schema: dict[str, Any]) -> str:
    if "anyOf" in schema or isinstance(schema.get("type"), list):
        return f"{_python(_without_null(schema))} | None"
    if "enum" in schema:
        return f"Literal[{', '.join(repr(option) for option in schema['enum'])}]"
    kind = schema.get("type", "string")
    if kind == "array":
        return f"list[{_python(schema['items'])}]"
    return _PYTHON.get(kind, "dict") if isinstance(kind, str) else "str"


def _placed(messages: Sequence[dict[str, str]], said: str, rng: random.Random) -> Messages:
    """Put `said` after the document, before it, or into a system message."""
    *before, last = messages
    place: Callable[[], Messages] = rng.choice(
        [
            lambda: [*before, {**last, "content": f"{last['content']}\n\n{said}"}],
            lambda: [*before, {**last, "content": f"{said}\n\n{last['content']}"}],
            lambda: [{"role": "system", "content": said}, last],
        ]
    )
    return place()
