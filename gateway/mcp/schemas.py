"""Judge arguments and results by the schemas that tools give: JSON Schema 2020-12, or the draft that one names.

Nothing is fetched. What a schema and a value can ask for together is bounded before they meet.
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
"""Comparisons of one check: a second or so, in a thread."""
KEPT = 1024
REGEX = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000, size_limit=1_000_000, dfa_size_limit=4_000_000)


class BadSchema(ValueError):
    """A schema that nothing can be judged by; the message says why."""


@dataclass(frozen=True, slots=True)
class SchemaJudge:
    """One compiled schema."""

    cost: SchemaCost
    validator: Any

    def complaint(self, value: Any) -> str | None:
        """Return what is wrong with `value`, and where; None = nothing. Values are not quoted: they may be secret."""
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


class SchemaJudges:
    """Compiled schemas of tools, least recently used out first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], SchemaJudge] = OrderedDict()
        self._known = jsonschema_rs.Registry(list(meta_schemas().items()), retriever=_refuse)

    def of_input(self, definition: ToolDefinition) -> SchemaJudge:
        return self._of(definition, "inputSchema", definition.input_schema)

    def of_output(self, definition: ToolDefinition) -> SchemaJudge | None:
        schema = definition.output_schema
        return None if schema is None else self._of(definition, "outputSchema", schema)

    def check(self, definition: ToolDefinition) -> str | None:
        """Return what keeps the schemas of a tool from judging anything; None = nothing."""
        try:
            self.of_input(definition)
            self.of_output(definition)
        except BadSchema as error:
            return str(error)
        return None

    def _of(self, definition: ToolDefinition, name: str, schema: Mapping[str, Any]) -> SchemaJudge:
        """Return the judge of a schema, from the cache where it is there. Raises `BadSchema`."""
        key = definition.fingerprint, name
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._made(schema, name)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _made(self, schema: Mapping[str, Any], name: str) -> SchemaJudge:
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
        return SchemaJudge(cost, validator)


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
