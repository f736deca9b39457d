"""Refuse keywords that the draft of a schema does not know, where they do more than to narrow it.

Validators ignore them. Masks enforce them: an answer is then valid under both readings, as long as a keyword only takes
values away. Under `not` it adds some, and a `const` that draft 4 ignores does not keep the branches of a `oneOf` apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluicegate.grammar.schema.document import REFERENCES, Json, Subschema
from sluicegate.plugins.errors import UnsupportedGrammar
from sluicegate.plugins.json_schema import KEYWORDS, named

_BY_NAME = ("table", "dependencies")
_AFTER_PREFIX = ("items", "additionalItems", "unevaluatedItems")
_FIRST, _CONST = 4, 6
"""The oldest draft, and the one that knows `const`."""
_MOST_BRANCHES = 64
_FOLLOWED = ("assertion", "applicator", "reference")


def _unknown_to(draft: int) -> frozenset[str]:
    return named(
        lambda keyword: (
            keyword.role in _FOLLOWED
            and (keyword.until < _FIRST or (keyword.since is not None and keyword.since > draft))
        )
    )


_FOREIGN = {draft: _unknown_to(draft) for draft in (_FIRST, 6, 7, 2019, 2020)}
"""By draft: keywords that are enforced although the draft does not know them."""
_Place = tuple[Subschema, str]
"""A schema, and the keyword by which values outside of it count, "" where there is none."""


def refuse_foreign(root: Subschema, nodes: Iterable[Subschema]) -> None:
    """Raise `UnsupportedGrammar` for a keyword of another draft that is not a mere restriction. `nodes`: all schemas
    that can matter."""
    if not any(_foreign(node) for node in nodes):
        return
    pending: list[_Place] = [(root, "")]
    seen: set[tuple[int, bool]] = set()
    while pending:
        node, outside = pending.pop()
        if not isinstance(node.value, dict) or (id(node), bool(outside)) in seen:
            continue
        seen.add((id(node), bool(outside)))
        foreign = _foreign(node)
        for keyword in foreign:
            if why := f"under {outside!r}" if outside else _widens(keyword, node.value):
                raise _refusal(node, keyword, why)
        pending.extend(_below(node, outside, foreign))


def _foreign(node: Subschema) -> list[str]:
    """Return the keywords of `node` that its draft does not know."""
    if not isinstance(node.value, dict) or (node.draft <= 7 and "$ref" in node.value):
        return []
    foreign = _FOREIGN[max(node.draft, _FIRST)]
    return [] if foreign.isdisjoint(node.value) else [key for key in node.value if key in foreign]


def _widens(keyword: str, schema: dict[str, Json]) -> str:
    """Return where `keyword` allows values that the other keywords of `schema` would refuse; "" for nowhere."""
    if keyword == "prefixItems":
        return next((f"beside {key!r}" for key in _AFTER_PREFIX if key in schema), "")
    return "beside 'contains'" if keyword == "minContains" and "contains" in schema and not schema[keyword] else ""


def _below(node: Subschema, outside: str, foreign: list[str]) -> Iterator[_Place]:
    """Yield the schemas inside. Those of foreign keywords only narrow, as these do."""
    schema = node.value
    if "$ref" in schema and node.draft <= 7:
        yield node.document.resolve(node, "$ref"), outside
        return
    for key in schema.keys() - set(foreign):
        keyword, value = KEYWORDS.get(key), schema[key]
        counts = outside or (key if _is_exclusive(key, node) else "")
        if key in REFERENCES:
            yield node.document.resolve(node, key), outside
        elif keyword is None or keyword.role != "applicator":
            continue
        elif isinstance(value, list):
            yield from ((node.child(key, i), counts) for i in range(len(value)))
        elif isinstance(value, dict) and keyword.form in _BY_NAME:
            yield from ((node.child(key, name), counts) for name in value if isinstance(value[name], dict))
        else:
            yield node.child(key), counts


def _is_exclusive(key: str, node: Subschema) -> bool:
    if key == "if":
        return "then" in node.value or "else" in node.value
    if key == "oneOf":
        branches = [node.child(key, i).target() for i in range(len(node.value[key]))]
        return node.draft < _CONST or not _told_apart(branches)
    return key == "not" or (key == "contains" and "maxContains" in node.value)


def _told_apart(branches: list[Subschema]) -> bool:
    """Return whether no two branches have a value in common, by keywords that the draft knows: they are of different
    types, or a required property has other values in each."""
    return len(branches) <= _MOST_BRANCHES and all(
        _apart(a.value, b.value) for k, a in enumerate(branches) for b in branches[:k]
    )


def _apart(a: Json, b: Json) -> bool:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return a is False or b is False
    if "$ref" in a or "$ref" in b:
        return False
    types = _types(a), _types(b)
    if types[0] and types[1] and types[0].isdisjoint(types[1]):
        return True
    if types != ({"object"}, {"object"}):
        return False
    names = set(a.get("required", ())) & set(b.get("required", ()))
    return any(_values(a, name) and _values(b, name).isdisjoint(_values(a, name)) for name in names if _values(b, name))


def _types(schema: dict[str, Json]) -> set[str]:
    named_types = schema.get("type", [])
    found = {named_types} if isinstance(named_types, str) else set(named_types)
    return {"number" if name == "integer" else name for name in found}


def _values(schema: dict[str, Json], name: str) -> set[str]:
    """Return the strings of the `enum` or `const` of property `name`; empty where it may be anything else."""
    told = schema.get("properties", {}).get(name)
    values = told.get("enum", [told["const"]] if "const" in told else []) if isinstance(told, dict) else []
    return set(values) if all(isinstance(value, str) for value in values) else set()


def _refusal(node: Subschema, keyword: str, why: str) -> UnsupportedGrammar:
    row, draft = KEYWORDS[keyword], max(node.draft, _FIRST)
    named_draft = f"draft {draft}" if draft < 2019 else {2019: "2019-09", 2020: "2020-12"}[draft]
    since = row.since if row.since is not None and row.since > draft else None
    advice = "write it with a keyword of that draft"
    if since is not None:
        advice = f"name a draft that does in $schema, from {'draft ' if since < 2019 else ''}{since} on"
    return UnsupportedGrammar(
        f"{named_draft} does not know {keyword}, so that validators ignore it; {why} that changes which values are "
        f"valid: {advice}",
        pointer=node.at(keyword),
    )
