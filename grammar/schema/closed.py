"""Close the objects of a schema: those that list `properties` and do not mention others get no others.

This only narrows: whatever satisfies the closed schema satisfies the one given. So nothing is closed below keywords
that do not narrow the whole, such as `not`, `if` and `contains`. Branches of `oneOf` stay as they are, and the value
must satisfy one of them closed as well."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from sluicegate.grammar.schema.document import REFERENCES
from sluicegate.plugins.errors import InvalidGrammar, UnsupportedGrammar
from sluicegate.plugins.json_schema import KEYWORDS

_SAID = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties"})
_PREFIX = "closed-"


def closed(schema: Any) -> Any:
    """Return a copy of `schema` with its objects closed.

    Raises `UnsupportedGrammar` for references that are no pointers into it, `InvalidGrammar` for those that lead
    nowhere."""
    if not isinstance(schema, dict):
        return schema
    return _ClosedTargets(schema).run()


class _ClosedTargets:
    """Closes each target of a reference once, and keeps it in `$defs` beside what was there."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._made: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self._schema(self._root, "")
        if self._made:
            table = self._root.get("$defs")
            found["$defs"] = {**(table if isinstance(table, dict) else {}), **self._made}
        return found

    def _schema(self, schema: Any, at: str) -> Any:
        if not isinstance(schema, dict):
            return schema
        if at and any(isinstance(schema.get(name), str) for name in ("$id", "id")):
            raise UnsupportedGrammar("close_objects reads one document, and here begins another", pointer=at)
        found = {key: self._part(key, value, f"{at}/{key}") for key, value in schema.items()}
        if isinstance(schema.get("oneOf"), list):
            branches = self._list(schema["oneOf"], f"{at}/oneOf")
            if branches != schema["oneOf"]:
                found["allOf"] = [*found.get("allOf", ()), {"anyOf": branches}]
        if isinstance(schema.get("properties"), dict) and _SAID.isdisjoint(schema):
            found["additionalProperties"] = False
        return found

    def _part(self, key: str, value: Any, at: str) -> Any:
        if key == "$ref":
            return self._reference(value, at)
        if key in REFERENCES:
            raise UnsupportedGrammar(f"close_objects does not follow `{key}`; use `$ref`", pointer=at)
        keyword = KEYWORDS.get(key)
        if keyword is None or not keyword.narrows:
            return value
        if keyword.form in ("table", "dependencies") and isinstance(value, dict):
            return {name: self._schema(inner, f"{at}/{name}") for name, inner in value.items()}
        if keyword.form in ("schema", "items") and not isinstance(value, list):
            return self._schema(value, at)
        return self._list(value, at) if keyword.form in ("schemas", "items") and isinstance(value, list) else value

    def _list(self, values: list[Any], at: str) -> list[Any]:
        return [self._schema(value, f"{at}/{i}") for i, value in enumerate(values)]

    def _reference(self, value: Any, at: str) -> Any:
        if not isinstance(value, str) or (value != "#" and not value.startswith("#/")):
            raise UnsupportedGrammar(
                f"close_objects follows references such as '#/$defs/name' only, not {value!r}; close those objects "
                "in the schema itself by `additionalProperties: false`",
                pointer=at,
            )
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = f"{_PREFIX}{len(self._names)}"
            self._made[name] = self._schema(_found_at(self._root, value, at), value[1:])
        return f"#/$defs/{name}"


def _found_at(root: Any, reference: str, at: str) -> Any:
    """Follow the pointer of `reference`."""
    found = root
    for step in reference[2:].split("/") if len(reference) > 1 else ():
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise InvalidGrammar(f"{reference!r} leads nowhere", pointer=at)
    return found
