"""Validate arguments and results by the tools' schemas: JSON Schema 2020-12, or the draft that a schema names.

No remote schema is fetched. The work is bounded before a value is validated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from sluicegate.gateway.mcp.definitions import ToolDefinition, depth_of
from sluicegate.gateway.mcp.schema_cost import EndlessSchema, SchemaCost
from sluicegate.grammar import meta_schemas

MOST_WORK = 20_000_000
"""Maximum comparisons of one validation: about a second, in a thread."""
KEPT = 1024
REGEX = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000, size_limit=1_000_000, dfa_size_limit=4_000_000)


class BadSchema(ValueError):
    """Raised for a schema that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """One compiled schema."""

    cost: SchemaCost
    validator: Any

    def complaint(self, value: Any) -> str | None:
        """Return the first error in `value` and its place; None if there is none. Values are not quoted: they may be
        secret."""
        depth = depth_of(value)
        if self.cost.work(depth) * (1 + _values(value)) > MOST_WORK:
            return f"it is nested so deeply ({depth} levels) that this schema cannot be checked in reasonable time"
        try:
            error = next(self.validator.iter_errors(value), None)
        except (jsonschema_rs.ValidationError, ValueError) as failure:
            return f"the schema cannot be checked: {str(failure).splitlines()[0][:200]}"
        if error is None:
            return None
        place = "/".join(str(step)[:64] for step in list(error.instance_path)[:16])
        return f"at /{place}: {error.message[:400]}"


class CompiledSchemas:
    """Compiled schemas of tools, least recently used out first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], CompiledSchema] = OrderedDict()
        self._known = jsonschema_rs.Registry(list(meta_schemas().items()), retriever=_refuse)

    def of_input(self, definition: ToolDefinition) -> CompiledSchema:
        return self._of(definition, "inputSchema", definition.input_schema)

    def of_output(self, definition: ToolDefinition) -> CompiledSchema | None:
        schema = definition.output_schema
        return None if schema is None else self._of(definition, "outputSchema", schema)

    def check(self, definition: ToolDefinition) -> str | None:
        """Return why the schemas of a tool cannot be used; None if they can."""
        try:
            self.of_input(definition)
            self.of_output(definition)
        except BadSchema as error:
            return str(error)
        return None

    def _of(self, definition: ToolDefinition, name: str, schema: Mapping[str, Any]) -> CompiledSchema:
        """Return the compiled schema, cached by the definition's fingerprint. Raises `BadSchema`."""
        key = definition.fingerprint, name
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._made(schema, name)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _made(self, schema: Mapping[str, Any], name: str) -> CompiledSchema:
        if name == "inputSchema" and schema.get("type") != "object":
            raise BadSchema("its inputSchema is not of type object")
        try:
            cost = SchemaCost(schema)
            validator = jsonschema_rs.validator_for(
                dict(schema), registry=self._known, validate_formats=True, mask="a value", pattern_options=REGEX
            )
        except (EndlessSchema, RecursionError) as error:
            raise BadSchema(f"its {name} cannot be judged by: {str(error)[:200]}") from error
        except (jsonschema_rs.ValidationError, ValueError) as error:
            raise BadSchema(f"its {name} is malformed: {str(error).splitlines()[0][:200]}") from error
        return CompiledSchema(cost, validator)


def _values(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
    return count


def _refuse(uri: str) -> Any:
    raise ValueError(f"it refers to {uri[:80]!r}; remote documents are never fetched")
