"""Whole schemas: properties in the order given, some in an object of their own, in the styles of usual clients."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from training.schemas import Field, Question, styled
from training.values import quoted

_STYLES = ("snake",) * 8 + ("camel",) * 3 + ("pascal",)


@dataclass(frozen=True, slots=True)
class Group:
    """Properties that stand in an object of their own."""

    key: str
    fields: tuple[Field, ...]


def question_of(members: Sequence[Field | Group], rng: random.Random, title: str = "Answer") -> Question:
    """Make a question for all of `members`, each under a key of its own."""
    style, pydantic = rng.choice(_STYLES), rng.random() < 0.4
    members = [_styled(member, style) for member in _distinct(members)]
    definitions: dict[str, Any] = {}
    fields = [_field_of(member, definitions if pydantic else None) for member in members]
    schema = _object(fields, pydantic)
    if pydantic:
        schema["title"] = title
    if definitions:
        schema = {"$defs": definitions, **schema}
    return Question(schema, _answer(fields), tuple(_kinds(members)))


def _distinct(members: Sequence[Field | Group]) -> list[Field | Group]:
    return list({member.key: member for member in members}.values())


def _styled(member: Field | Group, style: str) -> Field | Group:
    if isinstance(member, Group):
        inner = {field.key: field for field in member.fields}.values()
        return Group(styled(member.key, style), tuple(replace(f, key=styled(f.key, style)) for f in inner))
    return replace(member, key=styled(member.key, style))


def _field_of(member: Field | Group, definitions: dict[str, Any] | None) -> Field:
    if isinstance(member, Field):
        return member
    schema = _object(member.fields, definitions is not None)
    if definitions is not None:
        name = member.key[:1].upper() + member.key[1:]
        definitions[name] = {**schema, "title": name}
        schema = {"$ref": f"#/$defs/{name}"}
    return Field(member.key, schema, _answer(member.fields), "string")


def _object(fields: Sequence[Field], pydantic: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.key: _titled(field) if pydantic else field.schema for field in fields},
        "required": [field.key for field in fields if field.required],
        **({} if pydantic else {"additionalProperties": False}),
    }


def _titled(field: Field) -> dict[str, Any]:
    """Return the schema with the title that pydantic gives to a property."""
    return field.schema if "$ref" in field.schema else {**field.schema, "title": field.key.replace("_", " ").title()}


def _answer(fields: Sequence[Field]) -> str:
    return "{" + ",".join(f"{quoted(field.key)}:{field.raw}" for field in fields if field.raw is not None) + "}"


def _kinds(members: Sequence[Field | Group]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for member in members:
        if isinstance(member, Group):
            found += [(f"{member.key}.{f.key}", str(f.kind)) for f in member.fields if f.raw is not None]
        elif member.raw is not None:
            found.append((member.key, str(member.kind)))
    return found
