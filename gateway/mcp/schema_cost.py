"""Bound the work of validating a value by a schema: some hundred bytes of `$ref` can cost 2^40 comparisons.

The bound depends on the depth of the value. Subschemas for the same part of a value (`allOf`, `$ref` ...) add up. Of
`properties` the most expensive one counts, since each applies to another part; subschemas that may apply to a part
together with others (`items`, `patternProperties` ...) add up again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

HERE_LISTS = ("allOf", "anyOf", "oneOf")
HERE = ("not", "if", "then", "else")
HERE_TABLES = ("dependentSchemas", "dependencies")
BELOW = (
    "additionalProperties",
    "additionalItems",
    "items",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
)
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
MOST = 10**15


class EndlessSchema(ValueError):
    """Raised for a schema that refers to itself at the same part of a value, or to a schema that it does not have."""


class SchemaCost:
    """The cost of one schema. The constructor raises `EndlessSchema`."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._named: dict[str, list[Any]] = {}
        self._collect(schema)
        self._known: dict[tuple[int, int], int] = {}
        self.work(0)

    def work(self, depth: int) -> int:
        """Return an upper bound of the comparisons for one value of `depth` levels, `MOST` at most. Levels are computed
        in order, so that the recursion is no deeper than the schema."""
        for level in range(depth + 1):
            found = self._work(self._root, level, frozenset())
        return found

    def _work(self, node: Any, depth: int, open_: frozenset[int]) -> int:
        if not isinstance(node, Mapping):
            return 1
        known = self._known.get((id(node), depth))
        if known is not None:
            return known
        if id(node) in open_:
            raise EndlessSchema("it refers to itself without going any deeper")
        inside = open_ | {id(node)}
        found = 1 + len(node) + sum(self._work(one, depth, inside) for one in self._here(node))
        if depth:
            found += self._below(node, depth - 1)
        self._known[id(node), depth] = min(found, MOST)
        return min(found, MOST)

    def _below(self, node: Mapping[str, Any], depth: int) -> int:
        table = node.get("properties")
        places = [*(table.values() if isinstance(table, Mapping) else ()), *_listed(node, "items", "prefixItems")]
        dearest = max((self._work(one, depth, frozenset()) for one in places), default=0)
        patterns = node.get("patternProperties")
        shared = [node[name] for name in BELOW if not isinstance(node.get(name, ()), list | tuple)]
        shared += patterns.values() if isinstance(patterns, Mapping) else ()
        return dearest + sum(self._work(one, depth, frozenset()) for one in shared)

    def _here(self, node: Mapping[str, Any]) -> Iterator[Any]:
        yield from _listed(node, *HERE_LISTS)
        for name in HERE:
            if name in node:
                yield node[name]
        for name in HERE_TABLES:
            if isinstance(table := node.get(name), Mapping):
                yield from table.values()
        for name in REFERENCES:
            if isinstance(target := node.get(name), str):
                yield from self._targets(target)

    def _targets(self, reference: str) -> list[Any]:
        """Return every schema that `reference` may mean; which one it is depends on base URIs, and extra ones only
        raise the bound. Raises `EndlessSchema` if there is none."""
        base, _, fragment = reference.partition("#")
        if not fragment.startswith("/") and fragment:
            found = self._named.get("#" + fragment, [])
        else:
            starts = [self._root] if not base else []
            starts += [one for name, named in self._named.items() if _same(name, base) for one in named]
            found = [one for start in starts for one in _pointed(start, fragment)]
        if not found:
            raise EndlessSchema(f"it refers to {reference[:80]!r}, which is not in it")
        return found

    def _collect(self, schema: Any) -> None:
        waiting = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Mapping):
                for name in ("$anchor", "$dynamicAnchor"):
                    if isinstance(anchor := node.get(name), str):
                        self._named.setdefault("#" + anchor, []).append(node)
                for name in ("$id", "id"):
                    if isinstance(identity := node.get(name), str):
                        self._named.setdefault(identity, []).append(node)
                waiting += node.values()
            elif isinstance(node, list | tuple):
                waiting += node


def _same(identity: str, base: str) -> bool:
    """Return whether a reference with this base may mean the document with this `$id`."""
    if identity.startswith("#"):
        return False
    return not base or identity.rstrip("#").rsplit("/", 1)[-1] == base.rsplit("/", 1)[-1]


def _pointed(start: Any, pointer: str) -> Iterator[Any]:
    at = start
    for step in pointer.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping) and name in at:
            at = at[name]
        elif isinstance(at, list | tuple) and name.isdecimal() and int(name) < len(at):
            at = at[int(name)]
        else:
            return
    yield at


def _listed(node: Mapping[str, Any], *names: str) -> Iterator[Any]:
    for name in names:
        if isinstance(found := node.get(name), list | tuple):
            yield from found
