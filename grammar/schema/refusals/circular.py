"""Find schemas that refer to themselves without a value in between: nothing says what they allow."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.grammar.components import components
from sluicegate.grammar.schema.document import Subschema
from sluicegate.plugins.errors import InvalidGrammar


def refuse_circular(nodes: Iterable[Subschema]) -> None:
    """Raise `InvalidGrammar` with the place of the first of `nodes` that leads back to itself through `$ref` and
    `allOf` alone."""
    listed = [node for node in nodes if "$ref" in node.value or "allOf" in node.value]
    number = {id(node): i for i, node in enumerate(listed)}
    edges = [[number[id(target)] for target in _same_value(node) if id(target) in number] for node in listed]
    wrong = [min(c) for c in components(edges) if len(c) > 1 or c[0] in edges[c[0]]]
    if wrong:
        raise InvalidGrammar(
            "this schema refers to itself without a value in between; let a property or an item lead back to it",
            pointer=listed[min(wrong)].pointer,
        )


def _same_value(node: Subschema) -> Iterable[Subschema]:
    """Yield the schemas that the value of `node` must satisfy as well."""
    if "$ref" in node.value:
        yield node.document.resolve(node, "$ref")
        if node.draft <= 7:
            return
    for i in range(len(node.value.get("allOf", ()))):
        yield node.child("allOf", i)
