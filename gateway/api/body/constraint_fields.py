"""Read the shape of an answer into one constraint: `response_format`, vLLM's `structured_outputs` and `guided_...`, and
SGLang's `regex`, `ebnf` and `json_schema`."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sluicegate.gateway.api.body.depth import check_depth, check_values_inside
from sluicegate.gateway.api.body.shared_fields import SharedFields, contradiction
from sluicegate.gateway.api.body.unknown_fields import Listed, Wire
from sluicegate.plugins import Constraint, ConstraintKind, RequestError, Unsatisfiable, exact_json
from sluicegate.plugins.json_names import check_once

Found = tuple[str, Constraint]
"""The place of what says how the answer looks, and the constraint that this is."""
NOTHING = ("", None)


class JsonSchemaFormat(Wire):
    """It is enforced, `strict` or not. `description` reaches no model: the schema's own does."""

    model_config = ConfigDict(populate_by_name=True)
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None

    @property
    def shapes(self) -> bool:
        return True


class ResponseFormat(Wire):
    """With `structural_tag`, the other fields are those of the tag itself; `schema` beside `json_object` is how other
    servers, and clients that were written for them, spell a schema. `value` is TGI's name, beside `json`, `json_object`
    and `regex`: huggingface_hub turns what OpenAI's interface has into it."""

    model_config = ConfigDict(populate_by_name=True)
    type: Literal["text", "json_object", "json_schema", "structural_tag", "json", "regex"]
    json_schema: JsonSchemaFormat | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    value: dict[str, Any] | bool | str | None = None

    @model_validator(mode="after")
    def _has_value(self) -> ResponseFormat:
        kinds: dict[str, tuple[type, ...]] = {
            "regex": (str,), "json": (dict, bool), "json_object": (dict, bool, NoneType),
        }  # fmt: skip
        if not isinstance(self.value, kinds.get(self.type, (NoneType,))):
            raise ValueError("`value` is a schema beside 'json' and 'json_object', a pattern beside 'regex'")
        if self.value is not None and self.schema_ is not None:
            raise ValueError("`value` and `schema` both say what the answer looks like; send one")
        return self

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("`json_schema` is required when `type` is 'json_schema'")
        if self.type != "json_schema" and self.json_schema is not None:
            raise ValueError(f"`json_schema` is given, but `type` is {self.type!r}; make it 'json_schema'")
        if self.type != "json_object" and self.schema_ is not None:
            raise ValueError(f"`schema` stands beside 'json_object' or inside `json_schema`, not beside {self.type!r}")
        return self

    @property
    def takes_all(self) -> bool:
        return self.type == "structural_tag"

    @property
    def shapes(self) -> bool:
        return True


class StructuredOutputs(BaseModel):
    """The field that vLLM's clients send: what the answer looks like, and options of that."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    json_: dict[str, Any] | bool | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: Listed[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: dict[str, Any] | str | None = None
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None


class ConstrainedFields(SharedFields):
    """Of chat and of completions."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: Listed[str] | None = None
    guided_grammar: str | None = None
    guided_json_object: bool | None = None
    guided_whitespace_pattern: str | None = None
    guided_decoding_disable_any_whitespace: bool | None = None
    guided_decoding_disable_additional_properties: bool | None = None
    structural_tag: dict[str, Any] | str | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: dict[str, Any] | bool | str | None = None


SAYING = frozenset(ConstrainedFields.__pydantic_fields__) - frozenset(SharedFields.__pydantic_fields__)
OLDER = {
    "json_": "guided_json",
    "regex": "guided_regex",
    "choice": "guided_choice",
    "grammar": "guided_grammar",
    "json_object": "guided_json_object",
    "structural_tag": "structural_tag",
    "whitespace_pattern": "guided_whitespace_pattern",
    "disable_any_whitespace": "guided_decoding_disable_any_whitespace",
    "disable_additional_properties": "guided_decoding_disable_additional_properties",
}
"""Where fields of `structured_outputs` stood before there was one."""
KINDS: dict[str, ConstraintKind] = {
    "json_": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "lark",
    "json_object": "json_object",
    "structural_tag": "structural_tag",
}
OF_JSON = frozenset({"json_schema", "json_object", "structural_tag"})
"""Kinds of constraints that options of JSON act on."""


def constraint_of(wire: ConstrainedFields) -> tuple[str, Constraint | None]:
    """Return the constraint that the request asks for, or None, and its place in the body. Raises `RequestError` for
    two constraints, for options without one, and for a stop string beside one."""
    if wire.__pydantic_fields_set__.isdisjoint(SAYING):
        return NOTHING
    found = [*_of_format(wire.response_format), *_structured(wire), *_of_sglang(wire)]
    if len(found) > 1:
        one, other = (_field(place) for place, _ in found[:2])
        raise RequestError(
            f"`{one}` and `{other}` both constrain the answer; send one",
            param=other.partition(".")[0],
            code="contradiction",
        )
    options = _options(wire)
    if not found:
        _check_alone(wire)
        return NOTHING
    [(name, constraint)] = found
    _check_options(name, constraint, options)
    _check_stop(wire)
    return name, Constraint(constraint.kind, constraint.value, constraint.name, {**wire.sluicegate.grammar, **options})


def _field(place: str) -> str:
    """Return the field that a place belongs to, as callers choose between them."""
    return "response_format" if place.startswith("response_format.") else place


def _of_format(asked: ResponseFormat | None) -> Iterator[Found]:
    if asked is None or asked.type == "text":
        return
    if asked.type == "structural_tag":
        value = asked.model_dump(exclude={"json_schema", "schema_", "value"})
        yield "response_format", Constraint("structural_tag", value)
    elif asked.json_schema is not None:
        schema = Constraint("json_schema", asked.json_schema.schema_, asked.json_schema.name)
        yield "response_format.json_schema.schema", schema
    elif asked.type == "regex":
        yield "response_format.value", Constraint("regex", asked.value)
    elif asked.value is not None:
        yield "response_format.value", Constraint("json_schema", asked.value)
    elif asked.schema_ is not None:
        yield "response_format.schema", Constraint("json_schema", asked.schema_)
    else:
        yield "response_format", Constraint("json_object")


def _structured(wire: ConstrainedFields) -> Iterator[Found]:
    asked = wire.structured_outputs
    for name, kind in KINDS.items():
        inner = name.rstrip("_")
        if asked is not None:
            yield from _said(f"structured_outputs.{inner}", kind, getattr(asked, name))
        yield from _said(OLDER[name], kind, getattr(wire, OLDER[name]))


def _of_sglang(wire: ConstrainedFields) -> Iterator[Found]:
    yield from _said("regex", "regex", wire.regex)
    yield from _said("ebnf", "lark", wire.ebnf)
    yield from _said("json_schema", "json_schema", wire.json_schema)


def _said(name: str, kind: ConstraintKind, value: Any) -> Iterator[Found]:
    if value is None or (kind == "json_object" and not value):
        return
    if kind in ("json_schema", "structural_tag"):
        value = _parsed(value, name)
    elif kind == "choice":
        if not value:  # whatever reads constraints: an upstream's dialect makes a pattern of it
            raise Unsatisfiable(f"`{name}`: there is no choice to make: the list is empty", param=name)
        value = tuple(value)
    yield name, Constraint(kind, None if kind == "json_object" else value)


def _parsed(value: dict[str, Any] | bool | str, name: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        tree = exact_json.read(check_values_inside(value), lambda rounded: _check(rounded, value, name))
    except ValueError as error:
        raise RequestError(f"`{name}` cannot be read as JSON: {error}", param=name) from error
    return tree


def _check(rounded: Any, text: str, name: str) -> None:
    check_depth(rounded, text, at=name)
    check_once(rounded, text)


def _options(wire: ConstrainedFields) -> dict[str, Any]:
    """Return options of the compiler that fields of other servers ask for. Raises `RequestError` where two disagree."""
    found: dict[str, tuple[str, Any]] = {name: ("sluicegate.grammar", v) for name, v in wire.sluicegate.grammar.items()}
    asked = wire.structured_outputs
    for name, option, of in (
        ("whitespace_pattern", "whitespace", str),
        ("disable_any_whitespace", "whitespace", lambda off: "compact" if off else None),
        ("disable_additional_properties", "close_objects", lambda off: off or None),
    ):
        inner = None if asked is None else getattr(asked, name)
        for place, given in ((f"structured_outputs.{name}", inner), (OLDER[name], getattr(wire, OLDER[name]))):
            value = None if given is None else of(given)
            if value is None:
                continue
            before = found.setdefault(option, (place, value))
            if before[1] != value:
                raise contradiction(before[0], place)
    return {option: value for option, (place, value) in found.items() if place != "sluicegate.grammar"}


def _check_alone(wire: ConstrainedFields) -> None:
    """Refuse options that have nothing to act on, and an empty `structured_outputs`: raises `RequestError`."""
    asked = wire.structured_outputs
    names = [f"structured_outputs.{name}" for name in OLDER if asked is not None and getattr(asked, name)]
    names += [older for older in OLDER.values() if getattr(wire, older)]
    if names or asked is not None:
        raise RequestError(
            f"`{names[0] if names else 'structured_outputs'}` says nothing of the answer's shape: give exactly one of "
            "json, regex, choice, grammar, json_object and structural_tag, or a `response_format`",
            param=names[0].partition(".")[0] if names else "structured_outputs",
        )


def _check_options(name: str, constraint: Constraint, options: dict[str, Any]) -> None:
    if options and constraint.kind not in OF_JSON:
        raise RequestError(
            f"options of JSON (whitespace, additional properties) have no effect on `{_field(name)}`; leave them out",
            param="structured_outputs",
            code="unsupported_parameter",
        )


def _check_stop(wire: SharedFields) -> None:
    if wire.stop:
        raise RequestError(
            "`stop` would cut a constrained answer in the middle; leave it out: the constraint says where it ends",
            param="stop",
            code="unsupported_parameter",
        )
