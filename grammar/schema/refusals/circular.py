"""Find schemas that refer to themselves without a value in between: nothing says what they allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluicegate.grammar.components import components
from sluicegate.grammar.schema.document import REFERENCES, Subschema
from sluicegate.plugins.errors import InvalidGrammar

_LISTS, _ONE = ("allOf", "anyOf", "oneOf"), ("not", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_LEADING = frozenset([*REFERENCES, *_LISTS, *_ONE, *_BY_NAME, "if"])


def refuse_circular(nodes: Iterable[Subschema]) -> None:
    """Raise `InvalidGrammar` with the place of the first of `nodes` that leads back to itself for the same value."""
    listed = [node for node in nodes if not _LEADING.isdisjoint(node.value)]
    number = {id(node): i for i, node in enumerate(listed)}
    edges = [[number[id(target)] for target in _same_value(node) if id(target) in number] for node in listed]
    wrong = [min(c) for c in components(edges) if len(c) > 1 or c[0] in edges[c[0]]]
    if wrong:
        raise InvalidGrammar(
            "this schema refers to itself without a value in between; let a property or an item lead back to it",
            pointer=listed[min(wrong)].pointer,
        )


def _same_value(node: Subschema) -> Iterator[Subschema]:
    """Yield the schemas that are asked about the value of `node` itself."""
    schema = node.value
    if "$ref" in schema and node.draft <= 7:
        yield node.document.resolve(node, "$ref")
        return
    yield from (node.document.resolve(node, key) for key in REFERENCES if key in schema)
    for key in _LISTS:
        yield from (node.child(key, i) for i in range(len(schema.get(key, ()))))
    yield from (node.child(key) for key in _ONE if key in schema and (key == "not" or "if" in schema))
    if "if" in schema and ("then" in schema or "else" in schema):
        yield node.child("if")
    for key in _BY_NAME:
        yield from (node.child(key, name) for name, part in schema.get(key, {}).items() if isinstance(part, dict))
