"""Whole-value checks for what conjunctions cannot say, done by a JSON Schema library on the finished value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from grammar.guards import canonical
from grammar.schema.containers import Fact, Literal
from grammar.schema.document import Document, Node
from plugins.errors import UnsupportedGrammar

_URI = "sluicegate:schema"
_DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


class Checks:
    """Validators by subschema, built on first use. `format` is left to the masks, which enforce it on every string."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._validators: dict[Node, Callable[[Any], bool]] = {}

    def validator(self, fact: Fact) -> Callable[[Any], bool]:
        """Does a value satisfy `fact` taken as positive?"""
        if isinstance(fact, Literal):
            wanted = canonical(json.loads(fact.json)) if fact.json else object()
            return lambda value: bool(canonical(value) == wanted)
        known = self._validators.get(fact.node)
        if known is None:
            known = self._validators[fact.node] = self._build(fact.node)
        return known

    def _build(self, node: Node) -> Callable[[Any], bool]:
        root = self.document.schema
        dialect = _DIALECTS.get(self.document.root.draft, _DIALECTS[2020])
        try:
            if node is self.document.root:
                schema = root if isinstance(root, bool) or "$schema" in root else {"$schema": dialect, **root}
                return jsonschema_rs.validator_for(schema, validate_formats=False).is_valid
            whole = root if "$schema" in root else {"$schema": dialect, **root}
            registry = jsonschema_rs.Registry([(_URI, whole)])
            wrapper = {"$schema": dialect, "$ref": f"{_URI}#{_fragment(node.pointer)}"}
            return jsonschema_rs.validator_for(wrapper, registry=registry, validate_formats=False).is_valid
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise UnsupportedGrammar(
                f"this part needs a check of the whole value, and the checker refuses the schema: {str(error)[:200]}",
                pointer=node.pointer,
            ) from error


def _fragment(pointer: str) -> str:
    return pointer.replace("%", "%25").replace("#", "%23").replace('"', "%22").replace(" ", "%20").replace("^", "%5E")
