"""Index a schema document: its subschemas by place, its names, and what its references lead to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from sluicegate.grammar.schema.metaschemas import meta_schemas
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, UnsupportedGrammar
from sluicegate.plugins.json_schema import KEYWORDS, named

Json = Any
_DRAFTS = {
    "draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020,
}  # fmt: skip
DATA = named(lambda keyword: keyword.form in ("value", "values"))
"""Keywords whose value is data, not schemas: an `$id` or `$ref` inside it has no meaning."""
REFERENCES = tuple(name for name, keyword in KEYWORDS.items() if keyword.role == "reference")
ANNOTATIONS = named(lambda keyword: keyword.role == "annotation")
_MAPPINGS = named(lambda keyword: keyword.form in ("table", "definitions", "dependencies"))
_HOLDING = _MAPPINGS | named(lambda keyword: keyword.form in ("schema", "schemas", "items"))
"""Keywords that contain schemas."""
_REFERRING = ANNOTATIONS | {"$ref"}
_SCOPING = frozenset({"$dynamicAnchor", "$recursiveAnchor"})
"""Keywords on which the meaning of references below depends."""
_NAMING = _SCOPING | {"$schema", "$id", "id", "$anchor"}
_HOPS = 4
"""Most references followed one after the other to a schema."""
_DEEPEST = 2_000
"""Levels of objects and arrays; schemas that are compiled have a fifth of them. Texts are parsed up to 1,000 deep, but
schemas also come as values of Python, which may be of any depth, or contain themselves."""
_SHOWN_STEPS = 20
"""Of a pointer to what nests too deep."""


def draft_of(schema: Json, default: int = 2020) -> int:
    """Return the draft that `$schema` names, else `default`."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(name, str):
        for part, draft in _DRAFTS.items():
            if part in name:
                return draft
    return default


class Subschema:
    """One subschema at one place, interned by the document, so that `is` compares.

    `scope`: resources with dynamic anchors on the way here, outermost first; `$dynamicRef` depends on it.
    """

    __slots__ = ("_target", "base", "document", "draft", "pointer", "scope", "value")

    def __init__(
        self, document: SchemaDocument, value: Json, base: str, pointer: str, draft: int, scope: tuple[str, ...]
    ) -> None:
        self.document = document
        self.value = value
        self.base = base
        self.pointer = pointer
        self.draft = draft
        self.scope = scope
        self._target: Subschema | None = None

    def target(self) -> Subschema:
        """Follow a schema that is nothing but a `$ref`, at most four references far."""
        if self._target is None:
            self._target = self._followed()
        return self._target

    def _followed(self) -> Subschema:
        node = self
        for _ in range(_HOPS):
            if not isinstance(node.value, dict) or "$ref" not in node.value or not node.value.keys() <= _REFERRING:
                break
            node = node.document.resolve(node, "$ref")
        return node

    def equals(self, other: Subschema) -> bool:
        """Return whether this is the same schema, or a copy at a place where references mean the same."""
        if self is other:
            return True
        return (
            self.value == other.value
            and (self.document, self.base, self.draft, self.scope)
            == (other.document, other.base, other.draft, other.scope)
            and json.dumps(self.value, sort_keys=True) == json.dumps(other.value, sort_keys=True)  # true is not 1
        )

    def child(self, *keys: str | int) -> Subschema:
        """Return the subschema below."""
        value, pointer = self.value, self.pointer
        for key in keys:
            value = value[key]
            pointer += _step(key)
        return self.document.node(value, self.base, pointer, self.draft, self.scope)

    def at(self, *keys: str | int) -> str:
        """Return the pointer below, for messages."""
        return self.pointer + "".join(map(_step, keys))

    def __repr__(self) -> str:
        return f"Node({self.pointer!r})"


class AnyOf(Subschema):
    """A union of subschemas that the document does not spell."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Subschema, ...]) -> None:
        last = parts[-1]
        value = {"anyOf": [part.value for part in parts]}
        super().__init__(last.document, value, last.base, last.pointer, last.draft, last.scope)
        self.parts = parts

    def child(self, *keys: str | int) -> Subschema:
        assert keys[0] == "anyOf"
        part = self.parts[int(keys[1])]
        return part.child(*keys[2:]) if keys[2:] else part


class SchemaDocument:
    """Resolves `$ref`, `$anchor`, `$dynamicRef`, `$recursiveRef` and bundled `$id`s without fetching anything.

    Other documents are known by URI (without a fragment) if they were `given`, or are JSON Schema's own. Pointers into
    them begin with the URI.
    """

    def __init__(
        self, schema: Json, root_uri: str = "", most: int = 200_000, given: Mapping[str, Json] | None = None
    ) -> None:
        """Index `schema`. Raises `GrammarLimit` for more than `most` objects and arrays."""
        self.schema = schema
        self._given = {} if given is None else given
        self.others: dict[str, Json] = {}
        """Other documents that references led to."""
        self._left = most
        self._nodes: dict[tuple[int, str, tuple[str, ...]], Subschema] = {}
        self._either: dict[tuple[Subschema, ...], AnyOf] = {}
        self._targets: dict[tuple[str, str, int, tuple[str, ...]], Subschema] = {}
        """Targets by base, reference, draft and scope of the reference."""
        self.resources: dict[str, tuple[Json, str, int]] = {}
        """URI -> (schema, pointer, draft)."""
        self.anchors: dict[tuple[str, str], tuple[Json, str]] = {}
        self.dynamic: dict[tuple[str, str], tuple[Json, str]] = {}
        draft = draft_of(schema)
        parts = _plain_parts(schema, most)
        self._plain = parts is not None
        """Whether nothing but the root has a name or a draft of its own."""
        self._left -= (parts or 1) - 1
        self._index(schema, root_uri, "", draft)
        self.resources.setdefault(root_uri, (schema, "", draft))
        base = self._base(schema, root_uri, draft)
        self.root = self.node(schema, root_uri, "", draft, ())
        self.root_base = base

    def _base(self, schema: Json, base: str, draft: int) -> str:
        name = identifier(schema, draft)
        return base if name is None else urldefrag(_joined(base, name))[0]

    def _index(self, schema: Json, base: str, pointer: str, draft: int) -> None:
        """Find every `$id` and anchor. Unknown keywords come last, so that they name only what nothing else names.
        Raises `GrammarLimit` for what nests deeper than any JSON text that is read: pointers to all of it would be
        longer, by far, than the schema."""
        pending = [(schema, base, pointer, draft, True, 0)]
        unknown: list[tuple[Json, str, str, int, bool, int]] = []
        while pending or unknown:
            value, base, pointer, draft, is_schema, depth = (pending or unknown).pop()
            if depth > _DEEPEST:
                raise GrammarLimit(
                    f"objects and arrays nest deeper than {_DEEPEST} levels; make it flatter",
                    pointer="/".join(pointer.split("/")[: _SHOWN_STEPS + 1]),
                )
            self._left -= 1
            if self._left < 0:
                raise GrammarLimit(
                    "the schema has too many objects and arrays; split it, or raise limits.containers in "
                    "[stages.constrain.grammar]"
                )
            if isinstance(value, dict):
                if is_schema:
                    if "$schema" in value:
                        draft = draft_of(value, draft)
                    name = identifier(value, draft)
                    if name is not None:
                        full, fragment = urldefrag(_joined(base, name))
                        if fragment and not fragment.startswith("/"):
                            self.anchors.setdefault((full or base, fragment), (value, pointer))
                        if full != base or not pointer:
                            base = full
                            self.resources.setdefault(base, (value, pointer, draft))
                    self._index_anchors(value, base, pointer)
                if self._plain:
                    return
                for key, below in value.items():
                    if is_schema and key in DATA:
                        continue
                    if isinstance(below, dict | list):
                        inner = not is_schema or key not in _MAPPINGS
                        escaped = str(key).replace("~", "~0").replace("/", "~1")
                        later = unknown if is_schema and key not in _HOLDING else pending
                        later.append((below, base, f"{pointer}/{escaped}", draft, inner, depth + 1))
            elif isinstance(value, list):
                for i, below in enumerate(value):
                    if isinstance(below, dict | list):
                        pending.append((below, base, f"{pointer}/{i}", draft, True, depth + 1))

    def _index_anchors(self, value: dict[str, Json], base: str, pointer: str) -> None:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(key), str):
                self.anchors.setdefault((base, value[key]), (value, pointer))
        if isinstance(value.get("$dynamicAnchor"), str):
            self.dynamic.setdefault((base, value["$dynamicAnchor"]), (value, pointer))
        if value.get("$recursiveAnchor") is True:
            self.dynamic.setdefault((base, ""), (value, pointer))

    def either(self, parts: tuple[Subschema, ...]) -> AnyOf:
        """Return the union of `parts`, the same object each time."""
        found = self._either.get(parts)
        if found is None:
            found = self._either[parts] = AnyOf(parts)
        return found

    def node(self, value: Json, base: str, pointer: str, draft: int, scope: tuple[str, ...]) -> Subschema:
        if isinstance(value, dict) and not (self._plain and value is not self.schema):
            draft = draft_of(value, draft) if "$schema" in value else draft
            name = identifier(value, draft)
            if name is not None:
                full = urldefrag(_joined(base, name))[0]
                if full in self.resources:
                    base = full
            if self.dynamic and base not in scope and any(owner == base for owner, _ in self.dynamic):
                scope = (*scope, base)
        key = (id(value), pointer, scope)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Subschema(self, value, base, pointer, draft, scope)
        return found

    def resolve(self, node: Subschema, keyword: str) -> Subschema:
        """Return the target of `node`'s reference.

        Raises `UnsupportedGrammar` for an unknown document, `InvalidGrammar` for a place that does not exist.
        """
        reference = node.value[keyword]
        if not isinstance(reference, str):
            raise InvalidGrammar(f"{keyword} must be a string, not {reference!r}", pointer=node.at(keyword))
        if keyword == "$recursiveRef":
            return self._dynamic(node, self._static(node, "#", keyword), "", node.scope)
        target = self._static(node, reference, keyword)
        if keyword == "$dynamicRef":
            fragment = urldefrag(_joined(node.base, reference))[1]
            if isinstance(target.value, dict) and target.value.get("$dynamicAnchor") == fragment and fragment:
                return self._dynamic(node, target, fragment, node.scope)
        return target

    def _dynamic(self, node: Subschema, target: Subschema, name: str, scope: tuple[str, ...]) -> Subschema:
        if (target.base, name) not in self.dynamic:
            return target
        for uri in scope:
            found = self.dynamic.get((uri, name))
            if found is not None:
                return self.node(found[0], uri, found[1], target.draft, scope)
        return target

    def _static(self, node: Subschema, reference: str, keyword: str) -> Subschema:
        key = node.base, reference, node.draft, node.scope
        found = self._targets.get(key)
        if found is None:
            found = self._targets[key] = self._found(node, reference, keyword)
        return found

    def _found(self, node: Subschema, reference: str, keyword: str) -> Subschema:
        uri, fragment = urldefrag(_joined(node.base, reference))
        fragment = unquote(fragment)
        if uri not in self.resources:
            if reference.startswith("#"):
                uri = node.base if node.base in self.resources else ""
            elif not self._know(uri, node.draft):
                self._refuse_remote(node, uri, keyword)
        schema, pointer, draft = self.resources[uri]
        if fragment and not fragment.startswith("/"):
            if (uri, fragment) not in self.anchors:
                raise InvalidGrammar(f"{keyword} {reference!r} names no anchor", pointer=node.at(keyword))
            schema, pointer = self.anchors[uri, fragment]
            return self.node(schema, uri, pointer, draft, node.scope)
        base = uri
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            schema = self._below(schema, key, node, keyword, reference)
            pointer = f"{pointer}/{part}"
            if isinstance(schema, dict):
                draft = draft_of(schema, draft)
                name = identifier(schema, draft)
                full = urldefrag(_joined(base, name))[0] if name is not None else base
                base = full if full in self.resources else base
        if not isinstance(schema, dict | bool):
            raise InvalidGrammar(f"{keyword} {reference!r} does not lead to a schema", pointer=node.at(keyword))
        return self.node(schema, base, pointer, draft, node.scope)

    def _below(self, schema: Json, key: str, node: Subschema, keyword: str, reference: str) -> Json:
        if isinstance(schema, dict) and key in schema:
            return schema[key]
        if isinstance(schema, list) and key.isdigit() and int(key) < len(schema):
            return schema[int(key)]
        raise InvalidGrammar(f"{keyword} {reference!r} leads nowhere: there is no {key!r}", pointer=node.at(keyword))

    def _know(self, uri: str, draft: int) -> bool:
        """Index the other document at `uri`, if it is known; `draft` is its draft unless it names one."""
        found = self._given[uri] if uri in self._given else meta_schemas().get(uri)
        if found is None:
            return False
        self.others[uri] = found
        self._plain = False
        draft = draft_of(found, draft)
        self.resources[uri] = (found, f"{uri}#", draft)
        self._index(found, uri, f"{uri}#", draft)
        return True

    def _refuse_remote(self, node: Subschema, uri: str, keyword: str) -> None:
        raise UnsupportedGrammar(
            f"{keyword} leads to another document {uri!r}, and nothing is ever fetched; put it into this document "
            "under $defs with its $id",
            pointer=node.at(keyword),
        )


def _step(key: str | int) -> str:
    """Return the JSON pointer step for `key`."""
    text = str(key)
    return "/" + (text.replace("~", "~0").replace("/", "~1") if "/" in text or "~" in text else text)


def _plain_parts(schema: Json, most: int) -> int | None:
    """Count objects and arrays; None for more than `most`, or where a part below the root has a name or a draft. Takes
    a fraction of the time of `_index`, and most schemas are plain."""
    if not isinstance(schema, dict) or not schema.keys().isdisjoint(_SCOPING):
        return None
    pending: list[Json] = [schema]
    count = 0
    while pending:
        value = pending.pop()
        count += 1
        if count > most:
            return None
        if isinstance(value, dict):
            if value is not schema and not value.keys().isdisjoint(_NAMING) and _is_named(value):
                return None
            pending += [below for below in value.values() if isinstance(below, dict | list)]
        else:
            pending += [below for below in value if isinstance(below, dict | list)]
    return count


def _is_named(schema: dict[str, Json]) -> bool:
    return any(isinstance(schema.get(key), str | bool) for key in _NAMING)  # `id` may be a property's name


def _joined(base: str, reference: str) -> str:
    """Resolve `reference` as `urljoin` does, also for fragments of URNs, which it does not support."""
    return urldefrag(base)[0] + reference if reference.startswith("#") else urljoin(base, reference)


def identifier(schema: Json, draft: int) -> str | None:
    """Return `$id` (draft 4: `id`), or None where there is none; beside `$ref` older drafts ignore it."""
    if not isinstance(schema, dict) or (draft <= 7 and "$ref" in schema):
        return None
    name = schema.get("id" if draft <= 4 else "$id")
    return name if isinstance(name, str) else None
