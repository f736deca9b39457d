"""The last act before a structured answer leaves: an independent validator, which shares no code with the masks."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import jsonschema_rs

from plugins import Constraint, InvalidGrammar


class Validator:
    """Validators by schema, least recently used out first. Used from the event loop only."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    def prepare(self, constraint: Constraint) -> None:
        """Raises `InvalidGrammar` where the schema itself is malformed: better said before than after generating."""
        if constraint.kind == "json_schema":
            try:
                self._validator(constraint.value)
            except (jsonschema_rs.ValidationError, ValueError) as error:
                raise InvalidGrammar(f"the schema is malformed: {str(error).splitlines()[0]}") from error

    def complaint(self, constraint: Constraint, text: str) -> str | None:
        """None where `text` is a valid answer under `constraint`, else what is wrong. Regular expressions and Lark
        grammars have no independent judge here: their matcher's own end state is the proof."""
        if constraint.kind == "choice":
            return None if text in constraint.value else "not one of the choices"
        if constraint.kind not in ("json_schema", "json_object"):
            return None
        try:
            value = json.loads(text, object_pairs_hook=_no_duplicates)
        except ValueError as error:
            return f"not JSON: {error}"
        if constraint.kind == "json_object":
            return None if isinstance(value, dict) else "not a JSON object"
        return self._schema_complaint(constraint.value, value)

    def _schema_complaint(self, schema: Any, value: Any) -> str | None:
        try:
            error = next(self._validator(schema).iter_errors(value), None)
        except (jsonschema_rs.ValidationError, ValueError) as failure:
            return f"the schema cannot be checked: {failure}"
        return None if error is None else f"{error.message} (at {list(error.instance_path)})"

    def _validator(self, schema: Any) -> Any:
        key = json.dumps(schema, separators=(",", ":"))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = jsonschema_rs.validator_for(schema, retriever=_refuse)
            if len(self._compiled) > self._capacity:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return found


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri!r}; remote documents are never fetched")
