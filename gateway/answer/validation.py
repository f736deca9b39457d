"""Validate structured answers before they leave, with a validator that shares no code with the masks."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import jsonschema_rs

from sluicegate.gateway.answer.leaves import pointer_of
from sluicegate.gateway.answer.tag_validation import complaint as tag_complaint
from sluicegate.gateway.answer.tag_validation import json_schemas
from sluicegate.grammar import meta_schemas
from sluicegate.plugins import Answer, Constraint, InvalidGrammar, Request, ToolCall

WHOLE = ("stop", "tool_calls")
"""Finish reasons of a complete choice."""


COMPILED_BYTES = 16 << 20
"""Most bytes of the schemas of all validators that are kept; each takes about twice its schema, and more for a small
one."""


class Validator:
    """Validators by schema, least recently used out first: up to `capacity`, made of `COMPILED_BYTES`, and the last one
    however large it is. Used from the event loop only."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._compiled: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._known = jsonschema_rs.Registry(list(meta_schemas().items()), retriever=_refuse)

    def prepare(self, request: Request) -> None:
        """Compile the request's schemas. Raises `InvalidGrammar` where a schema itself is malformed: better reported
        before than after generating."""
        if request.constraint is not None and request.constraint.kind == "json_schema":
            self._prepare(request.constraint.value, "the schema", "constraint.value")
        if request.constraint is not None and request.constraint.kind == "structural_tag":
            for schema in json_schemas(request.constraint.value):
                self._prepare(schema, "a schema inside the structural tag", "constraint.value")
        for tool in request.callable_tools:
            place = f"tools[{request.tools.index(tool)}].parameters"
            self._prepare(tool.parameters, f"the schema of tool {tool.name!r}", place)

    def complaint(self, request: Request, answer: Answer) -> str | None:
        """Return what is wrong with the answer, or None where it is valid as far as the request says what valid is."""
        if answer.tool_calls:
            return self._complaint_of_calls(request, answer.tool_calls)
        if request.tool_choice.mode == "required" and request.tools:
            return "no tool was called"
        return None if request.constraint is None else self._complaint_of_text(request.constraint, answer.text)

    def complaint_of_whole(self, request: Request, answer: Answer) -> str | None:
        """Return the complaint about a complete answer, as `complaint` does; None for an answer that is marked as cut,
        stopped or refused."""
        if answer.finish_reason not in WHOLE or answer.refusal is not None:
            return None
        return self.complaint(request, answer)

    def all_valid(self, request: Request, answers: Sequence[Answer]) -> bool:
        return bool(answers) and self.first_complaint(request, answers) is None

    def first_complaint(self, request: Request, answers: Sequence[Answer]) -> str | None:
        for answer in answers:
            if (complaint := self.complaint_of_whole(request, answer)) is not None:
                return complaint
        return None

    def _prepare(self, schema: Any, name: str, place: str) -> None:
        try:
            self._validator(schema)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            where = pointer_of(tuple(getattr(error, "instance_path", ())))
            reason = f"{name} is malformed: {str(error).splitlines()[0]}"
            raise InvalidGrammar(reason, pointer=where, param=place) from error

    def allows_call(self, request: Request, call: ToolCall) -> bool:
        """Return whether one call may be made and satisfies its tool's schema."""
        return self._complaint_of_calls(request, (call,)) is None

    def _complaint_of_calls(self, request: Request, calls: Sequence[ToolCall]) -> str | None:
        schemas = {tool.name: tool.parameters for tool in request.callable_tools}
        if len(calls) > 1 and not request.tool_choice.parallel:
            return f"{len(calls)} calls where one was allowed"
        for call in calls:
            if call.name not in schemas:
                return f"the tool {call.name!r} may not be called"
            found = self._complaint_of_text(Constraint("json_schema", schemas[call.name]), call.arguments)
            if found:
                return f"arguments of {call.name!r}: {found}"
        return None

    def _complaint_of_text(self, constraint: Constraint, text: str) -> str | None:
        """Return what is wrong with `text`, or None. Regular expressions and Lark grammars have no independent judge
        here: their matcher's own end state is the proof."""
        if constraint.kind == "choice":
            return None if text in constraint.value else "not one of the choices"
        if constraint.kind == "structural_tag":
            return tag_complaint(constraint.value, text, self._schema_complaint, _DECODER)
        if constraint.kind not in ("json_schema", "json_object"):
            return None
        try:
            value = _DECODER.decode(text)
        except ValueError as error:
            return f"not JSON: {error}"
        if constraint.kind == "json_object":
            return None if isinstance(value, dict) else "not a JSON object"
        found = self._schema_complaint(constraint.value, value)
        if found is None or self._schema_complaint(constraint.value, _AS_DOUBLES.decode(text)) is None:
            return None
        return found

    def _schema_complaint(self, schema: Any, value: Any) -> str | None:
        """Return what is wrong with `value`, or None. The specification leaves open whether `format` asserts: what is
        valid in one of both readings is valid."""
        try:
            error = next(self._validator(schema).iter_errors(value), None)
            if error is None or (
                '"format"' in json.dumps(schema) and self._validator(schema, formats=True).is_valid(value)
            ):
                return None
        except (jsonschema_rs.ValidationError, ValueError) as failure:
            return f"the schema cannot be checked: {failure}"
        return f"{error.message} (at {list(error.instance_path)})"

    def _validator(self, schema: Any, formats: bool | None = None) -> Any:
        """Return a compiled validator, from the cache where it is there. `formats`: whether they assert; None: as is
        usual in the schema's draft."""
        text = json.dumps([schema, formats], separators=(",", ":")).encode()
        key = blake2b(text, digest_size=32).digest()
        found = self._compiled.get(key)
        if found is not None:
            self._compiled.move_to_end(key)
            return found[0]
        made = jsonschema_rs.validator_for(schema, registry=self._known, validate_formats=formats, mask="a value")
        self._compiled[key] = made, len(text)
        self._bytes += len(text)
        while len(self._compiled) > self._capacity or (self._bytes > COMPILED_BYTES and len(self._compiled) > 1):
            self._bytes -= self._compiled.popitem(last=False)[1][1]
        return made


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _number(text: str) -> Decimal:
    """Read a number. Raises `ValueError` for an exponent that readers turn into infinity, or into nothing: no grammar
    writes such a number."""
    read = float(text)
    if "e" in text.lower() and (math.isinf(read) or (read == 0 and text.lower().partition("e")[0].strip("-0."))):
        raise ValueError(f"no double holds the number {text[:40]}")
    return Decimal(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_number)
"""Parses numbers as decimals: as a binary fraction, 200000660123000000000700.0 is no multiple of 3."""
_AS_DOUBLES = json.JSONDecoder()
"""Parses numbers as clients do: 12345678901234567168.0 is 1.2345678901234567e19. For texts that the other parsed; what
is valid in one of both readings is valid."""


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri!r}; remote documents are never fetched")
