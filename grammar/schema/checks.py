"""Check finished values against what conjunctions cannot express, with a JSON Schema library."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urljoin

import jsonschema_rs

from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import Constant, Fact, SchemaRef
from sluicegate.grammar.schema.document import DATA, REFERENCES, AnyOf, SchemaDocument, Subschema
from sluicegate.grammar.schema.metaschemas import DIALECTS
from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.plugins.errors import UnsupportedGrammar

_PLAIN = "/~!$&'()*+,;=:@?"
_URI = "http://schema.invalid/"
"""Base URI of documents that have no absolute `$id`."""


class Checks:
    """Validators by subschema, built on first use. `format` is left to the masks, which enforce it on every string."""

    def __init__(self, document: SchemaDocument) -> None:
        self.document = document
        self._validators: dict[Subschema, Callable[[Any], bool]] = {}

    @cached_property
    def _readable(self) -> tuple[Any, dict[str, Any]]:
        """Return the document, and those it refers to, in a form that the library reads."""
        return _readable(self.document.schema), _readable(self.document.others)

    def validator(self, fact: Fact) -> Callable[[Any], bool]:
        """Return a test of whether a value satisfies `fact`, taken as positive. Raises `UnsupportedGrammar`."""
        if isinstance(fact, Constant):
            wanted = canonical(json.loads(fact.json, parse_float=Decimal)) if fact.json else object()
            return lambda value: bool(canonical(value) == wanted)
        assert isinstance(fact, SchemaRef)
        if isinstance(fact.node, AnyOf):
            parts = [self.validator(SchemaRef(part)) for part in fact.node.parts]
            return lambda value: any(part(value) for part in parts)
        known = self._validators.get(fact.node)
        if known is None:
            known = self._validators[fact.node] = self._build(fact.node)
        return known

    def _build(self, node: Subschema) -> Callable[[Any], bool]:
        root, others = self._readable
        dialect = DIALECTS.get(self.document.root.draft, DIALECTS[2020])
        try:
            if node is self.document.root and not self.document.others:
                schema = root if isinstance(root, bool) or "$schema" in root else {"$schema": dialect, **root}
                return jsonschema_rs.validator_for(schema, validate_formats=False).is_valid
            whole = root if "$schema" in root else {"$schema": dialect, **root}
            uri = urljoin(_URI, self.document.root_base)
            registry = jsonschema_rs.Registry([(uri, whole), *others.items()])
            wrapper = {"$schema": dialect, "$ref": _reference(uri, node.pointer)}
            return jsonschema_rs.validator_for(wrapper, registry=registry, validate_formats=False).is_valid
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise UnsupportedGrammar(
                f"this part needs a check of the whole value, and the checker refuses the schema: {str(error)[:200]}",
                pointer=node.pointer,
            ) from error


def _readable(schema: Any) -> Any:
    """Percent-encode characters of references that a URI cannot have, as the library wants."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _readable_part(key, value) for key, value in schema.items()}


def _readable_part(key: str, value: Any) -> Any:
    if key in REFERENCES and isinstance(value, str):
        return quote(value, safe=_PLAIN + "#%")
    return value if key in DATA else _readable(value)


def _reference(root: str, pointer: str) -> str:
    """Return the reference to `pointer`. Pointers into other documents begin with their URI."""
    uri, _, fragment = pointer.partition("#") if pointer and pointer[0] != "/" else (root, "", pointer)
    return f"{uri}#{quote(fragment, safe=_PLAIN)}"
