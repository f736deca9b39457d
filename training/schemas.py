"""Questions about a document: a JSON Schema over some of its facts, and the right answer as compact JSON text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.concepts import Concept
from training.documents import Document
from training.keys import opaque_key, varied_key
from training.layouts import Fact
from training.values import Kind, quoted

_GROUPS = [
    "details",
    "info",
    "data",
    "customer",
    "contact",
    "address",
    "meta",
    "record",
    "summary",
    "extra",
    "party",
    "subject",
]
_CASES: list[Callable[[str], str]] = [str, str, str.upper, str.capitalize]
_ITEM_KEYS = {
    "name": ["name", "product", "description", "item", "title"],
    "quantity": ["quantity", "qty", "count", "units"],
    "price": ["price", "unit_price", "unitPrice", "amount"],
    "person": ["name", "full_name", "person"],
    "role": ["role", "job", "position", "job_title"],
    "email": ["email", "mail", "email_address"],
    "age": ["age", "age", "years"],
    "city": ["city", "town", "location"],
}
_ITEM_TYPES = {"quantity": "integer", "age": "integer", "price": "number"}


@dataclass(frozen=True, slots=True)
class Field:
    """One property: the literal that answers it, or None when the text has nothing and the property is left out."""

    key: str
    schema: dict[str, Any]
    raw: str | None
    kind: Kind
    required: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    schema: dict[str, Any]
    answer: str
    kinds: tuple[tuple[str, str], ...]  # (path of the leaf property, kind) for the break-down of an evaluation


def sample_question(document: Document, rng: random.Random, max_fields: int = 7, varied: bool = False) -> Question:
    """Draw a question about some facts. `varied`: some field names are none of those listed for the kind of fact; see
    `training.keys`."""
    many = min(len(document.facts), rng.randint(1, max_fields))
    asked = rng.sample(document.facts, many)
    fields = _distinct([_varied(fact, document, rng) if varied else _field(fact, rng) for fact in asked])
    if "amount" in "".join(fact.concept.make for fact in document.facts) and rng.random() < 0.3:
        fields.append(_currency_field(document, rng))
    if document.absent and rng.random() < 0.25:
        fields.append(_absent_field(rng.choice(document.absent), rng))
    rng.shuffle(fields)
    return _assemble(_distinct(fields), rng)


def _distinct(fields: list[Field]) -> list[Field]:
    return list({field.key: field for field in fields}.values())


def styled(key: str, style: str) -> str:
    parts = key.split("_")
    if style == "camel":
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style == "pascal":
        return "".join(part.capitalize() for part in parts)
    return key.replace("_", "-") if style == "kebab" else key


def _assemble(fields: list[Field], rng: random.Random) -> Question:
    style = rng.choice(["snake"] * 7 + ["camel"] * 3 + ["pascal", "kebab"])
    fields = [Field(styled(f.key, style), f.schema, f.raw, f.kind, f.required) for f in fields]
    pydantic = rng.random() < 0.4
    if len(fields) >= 3 and rng.random() < 0.22:
        return _nested(fields, rng, pydantic, style)
    return _flat(fields, pydantic)


def _flat(fields: list[Field], pydantic: bool) -> Question:
    schema = _object(fields)
    if pydantic:
        schema["title"] = "Answer"
    kinds = tuple((field.key, field.kind) for field in fields if field.raw is not None)
    return Question(schema, _answer(fields), kinds)


def _nested(fields: list[Field], rng: random.Random, pydantic: bool, style: str) -> Question:
    """Move two or more neighbouring properties into an object of their own (by `$ref` the way pydantic does it)."""
    start = rng.randrange(0, len(fields) - 1)
    end = rng.randint(start + 2, min(len(fields), start + 4))
    taken = {field.key for field in fields}
    name = rng.choice([group for group in _GROUPS if styled(group, style) not in taken])
    inner, group = fields[start:end], styled(name, style)
    reference: dict[str, Any] = {"$ref": f"#/$defs/{name.capitalize()}"} if pydantic else _object(inner)
    outer = [*fields[:start], Field(group, reference, _answer(inner), "string"), *fields[end:]]
    schema = _object(outer)
    if pydantic:
        schema = {
            "$defs": {name.capitalize(): {**_object(inner), "title": name.capitalize()}},
            **schema,
            "title": "Answer",
        }
    kinds = [(f.key, str(f.kind)) for f in [*fields[:start], *fields[end:]] if f.raw is not None]
    kinds += [(f"{group}.{f.key}", f.kind) for f in inner if f.raw is not None]
    return Question(schema, _answer(outer), tuple(kinds))


def _object(fields: list[Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.key: field.schema for field in fields},
        "required": [field.key for field in fields if field.required],
        "additionalProperties": False,
    }


def _answer(fields: list[Field]) -> str:
    return "{" + ",".join(f"{quoted(field.key)}:{field.raw}" for field in fields if field.raw is not None) + "}"


def _field(fact: Fact, rng: random.Random) -> Field:
    value, key = fact.value, rng.choice(fact.concept.keys)
    schema, raw, kind = _typed(fact, rng)
    note = _note(fact.concept, value.kind, rng)
    if note:
        schema["description"] = note
    if rng.random() < 0.08:
        return Field(key, _nullable(schema), raw, kind, required=rng.random() < 0.5)
    return Field(key, schema, raw, kind, required=rng.random() > 0.05)


def _varied(fact: Fact, document: Document, rng: random.Random) -> Field:
    field, roll = _field(fact, rng), rng.random()
    if roll < 0.35 and (key := varied_key(fact, document.facts, rng)):
        return Field(key, field.schema, field.raw, field.kind, field.required)
    if roll > 0.93 and field.kind != "objects":
        schema = {**field.schema, "description": _wanted(fact.concept, rng)}
        return Field(opaque_key(rng), schema, field.raw, field.kind, field.required)
    return field


def _wanted(concept: Concept, rng: random.Random) -> str:
    """Say what a property is for, where its name does not say it."""
    label = concept.note or rng.choice(concept.labels)
    wording = rng.choice(
        ["{}", "{}", "{}", "the {}", "what is given as {}", "what stands under {}", "here: {}", "{} please"]
    )
    return re.sub(r"[()]", "", wording.format(label))


def _typed(fact: Fact, rng: random.Random) -> tuple[dict[str, Any], str, Kind]:
    value = fact.value
    if value.kind == "objects":
        return _items(fact, rng)
    if value.kind in ("number", "integer", "date") and rng.random() < 0.07 and "{vy}" not in "".join(fact.concept.says):
        return {"type": "string"}, quoted(value.text), "string"  # a plain string: as written in the text
    if value.kind == "strings":
        return {"type": "array", "items": {"type": "string"}}, value.raw, "strings"
    if value.kind == "enum":
        return _enum(fact, rng)
    if value.kind == "date":
        return {"type": "string", "format": "date"}, value.raw, "date"
    if value.kind == "string":
        format_ = {"format": value.format} if value.format and rng.random() < 0.4 else {}
        return {"type": "string", **format_}, value.raw, "string"
    kind = "number" if value.kind == "integer" and rng.random() < 0.1 else value.kind
    return {"type": kind}, value.raw, value.kind


def _enum(fact: Fact, rng: random.Random) -> tuple[dict[str, Any], str, Kind]:
    """Return the options in random order, sometimes in another case than the text has them, sometimes a plain
    string."""
    if rng.random() < 0.08:
        return {"type": "string"}, quoted(fact.value.text), "string"
    case = rng.choice(_CASES)
    options = [case(option) for option in fact.value.options]
    rng.shuffle(options)
    answer = next(option for option in options if option.lower() == fact.value.text.lower())
    schema: dict[str, Any] = {"enum": options} if rng.random() < 0.3 else {"type": "string", "enum": options}
    return schema, quoted(answer), "enum"


def _items(fact: Fact, rng: random.Random) -> tuple[dict[str, Any], str, Kind]:
    parts = rng.sample([part for part, _ in fact.value.rows[0]], rng.randint(2, 3))
    if "name" not in parts:
        parts[0] = "name"
    if rng.random() < 0.15:
        names = [dict(row)["name"] for row in fact.value.rows]
        return {"type": "array", "items": {"type": "string"}}, f"[{','.join(names)}]", "strings"
    keys = {part: rng.choice(_ITEM_KEYS[part]) for part in parts}
    if "price" not in dict(fact.value.rows[0]) and "name" in keys:
        keys["name"] = rng.choice(_ITEM_KEYS["person"])
    schema = {
        "type": "object",
        "properties": {keys[part]: {"type": _ITEM_TYPES.get(part, "string")} for part in parts},
        "required": [keys[part] for part in parts],
    }
    rows = [",".join(f"{quoted(keys[part])}:{dict(row)[part]}" for part in parts) for row in fact.value.rows]
    return {"type": "array", "items": schema}, "[" + ",".join("{" + row + "}" for row in rows) + "]", "objects"


def _note(concept: Concept, kind: Kind, rng: random.Random) -> str:
    if rng.random() > 0.22:
        return ""
    notes = (
        [concept.note] if concept.note else [rng.choice(concept.labels), f"The {rng.choice(concept.labels).lower()}"]
    )
    if kind == "date" and rng.random() < 0.3:
        notes = ["ISO 8601", "YYYY-MM-DD"]
    return re.sub(r"[()]", "", rng.choice(notes))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if (
        isinstance(kind, str)
        and "enum" not in schema
        and "properties" not in schema
        and len(schema) == 1
        and kind != "array"
    ):
        return {"type": [kind, "null"]} if len(kind) % 2 else {"anyOf": [schema, {"type": "null"}]}
    note = schema.pop("description", None)
    return {"anyOf": [schema, {"type": "null"}], **({"description": note} if note else {})}


_ABSENT_TYPES = {"int": "integer", "year": "integer", "amount": "number", "decimal": "number", "bool": "boolean"}


def _absent_field(concept: Concept, rng: random.Random) -> Field:
    """Make a property the text says nothing about: null when the schema lets it be null, else left out (not
    required)."""
    kind = concept.make.split(":")[0]
    schema: dict[str, Any] = {"type": _ABSENT_TYPES.get(kind, "string")}
    if kind == "date":
        schema["format"] = "date"
    key = rng.choice(concept.keys)
    if rng.random() < 0.75:
        return Field(key, _nullable(schema), "null", "string", required=rng.random() < 0.6)
    return Field(key, schema, None, "string", required=False)


def _currency_field(document: Document, rng: random.Random) -> Field:
    options = ["EUR", "USD", "GBP", "CHF", "SEK", "PLN"]
    if document.currency in options[:3] and rng.random() < 0.6:
        options = options[:3]
    rng.shuffle(options)
    schema = (
        {"type": "string", "enum": options} if rng.random() < 0.7 else {"type": "string", "description": "ISO code"}
    )
    key = rng.choice(["currency", "currency", "currency_code"])
    return Field(key, schema, quoted(document.currency), "enum")
