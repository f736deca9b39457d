"""Schemas at random whose values are few, so that all their texts can be listed, and masks compared with the list.

    python -m tests.fuzz.small_sets [--minutes 5] [--seed 0] [--case SEED]

Arrays of unique items above all: objects, arrays and scalars of a handful of values. All candidates are listed and
judged by a validator. At every place that masks lead to, written without blanks and with plain numbers, the bytes that
a mask offers are exactly those by which one of the valid texts goes on: no dead end, nothing invalid, nothing valid
refused. Elsewhere (other spellings, blanks) a walk under the masks must always find a way to the end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import jsonschema_rs

from sluicegate.grammar import GrammarError, GrammarOptions, LazyGrammar, Unsatisfiable, compile_json_schema
from tests.fuzz.cases import Finding, run, unexpected
from tests.fuzz.grammar import finish, offered
from tests.grammar.grammar_checks import allowed, byte_vocabulary

COMPACT = GrammarOptions(whitespace="compact", property_order="any")
FREE = GrammarOptions(whitespace=r"[ \n]{0,2}", property_order="any")
_MOST_TEXTS = 20_000
_LONGEST = 4
_NAMES = ("a", "b", "ab")
_SCALARS: tuple[Any, ...] = (None, False, True, 0, 1, 2, 12, "", "a", "ab", "b")
_PLAIN = frozenset(b'{}[]",:abtrueflsn01248')
"""The bytes of all listed texts. Others spell the same values otherwise (`1.0`, escapes)."""


class TooMany(Exception):
    pass


class Draw:
    """Draws schemas with few values."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick

    def items(self, depth: int = 0) -> tuple[Any, list[Any]]:
        """Return a schema, and a list that holds all its values."""
        ways = [self._listed, self._scalars]
        ways += [self._object, self._object, self._array, self._some] * (depth < 2)
        schema, values = self.pick.choice(ways)(depth)
        return schema, _distinct(values)

    def _listed(self, _: int) -> tuple[Any, list[Any]]:
        pick = self.pick
        values = [pick.choice((self._value(), pick.choice(_SCALARS))) for _ in range(pick.randrange(1, 4))]
        return ({"const": values[0]}, values[:1]) if len(values) == 1 else ({"enum": _distinct(values)}, values)

    def _value(self) -> Any:
        pick = self.pick
        if pick.random() < 0.4:
            return [pick.choice(_SCALARS) for _ in range(pick.randrange(3))]
        return {name: pick.choice(_SCALARS) for name in pick.sample(_NAMES, pick.randrange(3))}

    def _scalars(self, _: int) -> tuple[Any, list[Any]]:
        ways: list[tuple[Any, list[Any]]] = [
            ({"type": "boolean"}, [True, False]),
            ({"type": "null"}, [None]),
            ({"type": ["null", "boolean"]}, [None, True, False]),
            ({"type": "integer", "minimum": 0, "maximum": 2}, [0, 1, 2]),
            ({"type": "number", "minimum": 1, "exclusiveMaximum": 3, "multipleOf": 2}, [2]),
            ({"type": "string", "maxLength": 0}, [""]),
            ({"type": "string", "pattern": "^a?b?$"}, ["", "a", "b", "ab"]),
            ({"type": "string", "pattern": "^[ab]$", "minLength": 1}, ["a", "b"]),
            ({"type": "number", "minimum": 3, "maximum": 3.5, "multipleOf": 2}, []),
            ({"type": "integer", "exclusiveMinimum": -0.5, "exclusiveMaximum": 12.5, "multipleOf": 4}, [0, 4, 8, 12]),
            ({"type": "string", "pattern": "^[ab]{1,9}$", "maxLength": 1}, ["a", "b"]),
            (
                {"type": "string", "pattern": "(ab)*", "minLength": 1, "maxLength": 2, "enum": ["", "b", "ab"]},
                ["b", "ab"],
            ),
            ({"enum": ["a", "b", 1, 2, None], "not": {"type": "string", "pattern": "b"}}, ["a", 1, 2, None]),
            ({"enum": [0, 1, 2, 12], "if": {"minimum": 1}, "then": {"multipleOf": 2}, "else": False}, [2, 12]),
        ]
        return self.pick.choice(ways)

    def _object(self, depth: int) -> tuple[Any, list[Any]]:
        pick = self.pick
        names = pick.sample(_NAMES, pick.randrange(1, 3))
        drawn = {name: self.items(depth + 1) for name in names}
        closed = pick.choice(("additional", "additional", "unevaluated", "names"))
        schema: dict[str, Any] = {"type": "object", "properties": {name: made for name, (made, _) in drawn.items()}}
        if closed == "names":
            schema["propertyNames"] = {"enum": names}
        else:
            schema[f"{closed}Properties"] = False
        if pick.random() < 0.2:  # the same names by a pattern
            schema["patternProperties"] = {f"^({'|'.join(names)})$": True}
        if pick.random() < 0.6:
            schema["required"] = pick.sample(names, pick.randrange(len(names) + 1))
        schema |= self._some_of(minProperties=(0, 1, 2), maxProperties=(0, 1, 2))
        if pick.random() < 0.2:
            schema["dependentRequired"] = {pick.choice(_NAMES): [pick.choice((*names, pick.choice(_NAMES)))]}
        if pick.random() < 0.25:
            self._depend(schema, names, depth)
        ways = [[(name, value) for value in values] for name, (_, values) in drawn.items()]
        return schema, [dict(members) for chosen in _subsets(ways) for members in _products(chosen)]

    def _depend(self, schema: dict[str, Any], names: list[str], depth: int) -> None:
        """Let members depend on each other."""
        pick = self.pick
        one: dict[str, Any] = {"required": [pick.choice(_NAMES)]}
        if pick.random() < 0.5:
            one = {"properties": {pick.choice(names): self.items(depth + 1)[0]}, **(one if pick.random() < 0.5 else {})}
        ways: list[dict[str, Any]] = [
            {"not": one},
            {"dependentSchemas": {pick.choice(names): one}},
            {"if": one, "then": {"minProperties": 2}, "else": {"required": [pick.choice(names)]}},
            {"if": one, "then": {"properties": {pick.choice(names): False}}},
            {"oneOf": [one, {"minProperties": 2}, {"maxProperties": 0}]},
            {"patternProperties": {f"^{pick.choice(names)}$": self.items(depth + 1)[0]}},
            {"propertyNames": {"pattern": "b$"}},
        ]
        schema.update({name: value for name, value in pick.choice(ways).items() if name not in schema})

    def _array(self, depth: int) -> tuple[Any, list[Any]]:
        pick = self.pick
        items, values = self.items(depth + 1)
        high = pick.randrange(3)
        schema = {"type": "array", "items": items, "maxItems": high} | self._some_of(
            minItems=(0, 1, 2), uniqueItems=(True,)
        )
        if pick.random() < 0.15:
            schema["contains"] = self.items(depth + 1)[0]
            schema |= self._some_of(minContains=(0, 1, 2), maxContains=(0, 1))
        if pick.random() < 0.15:
            schema["not"] = pick.choice(({"contains": {"type": "null"}}, {"uniqueItems": True}, {"minItems": 2}))
        return schema, [list(value) for size in range(high + 1) for value in _products([values] * size)]

    def _some(self, depth: int) -> tuple[Any, list[Any]]:
        pick = self.pick
        (first, values), (second, others) = self.items(depth + 1), self.items(depth + 1)
        way = pick.randrange(4)
        if way == 0:
            return {"anyOf": [first, second]}, values + others
        if way == 1:
            return {"oneOf": [first, second]}, values + others
        if way == 2:
            return {"allOf": [first, {"not": second}]}, values
        return {"anyOf": [first, second], "if": second, "then": first}, values + others

    def _some_of(self, **ways: tuple[Any, ...]) -> dict[str, Any]:
        return {name: self.pick.choice(of) for name, of in ways.items() if self.pick.random() < 0.3}

    def whole(self) -> tuple[Any, list[Any]]:
        """Return a schema, mostly of an array of unique items, and a list that holds all its values."""
        pick = self.pick
        items, values = self.items()
        if pick.random() < 0.35:
            return items, values
        schema: dict[str, Any] = {"type": "array", "items": items}
        if pick.random() < 0.85:
            schema["uniqueItems"] = True
        places: list[list[Any]] = []
        if pick.random() < 0.25:
            drawn = [self.items(1) for _ in range(pick.randrange(1, 3))]
            schema["prefixItems"] = [made for made, _ in drawn]
            places = [each for _, each in drawn]
        high = pick.randrange(1, _LONGEST + 1)
        if pick.random() < 0.6 or not schema.get("uniqueItems"):
            schema["maxItems"] = high
        else:
            high = len(places) + len(values)
        schema |= self._some_of(minItems=(1, 2, 3))
        if pick.random() < 0.25:
            schema["contains"] = pick.choice((self.items(1)[0], {"const": pick.choice(values)} if values else True))
            schema |= self._some_of(minContains=(0, 1, 2), maxContains=(0, 1, 2))
        if pick.random() < 0.15:
            schema["not"] = {pick.choice(("contains", "items")): self.items(1)[0]}
        if "prefixItems" in schema and "contains" not in schema and pick.random() < 0.5:
            schema["unevaluatedItems"] = schema.pop("items")
        lists = [places[k] if k < len(places) else values for k in range(high)]
        return schema, [list(value) for size in range(high + 1) for value in _products(lists[:size])]


def _distinct(values: list[Any]) -> list[Any]:
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _products(parts: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST_TEXTS:
        raise TooMany
    return product(*parts)


def _subsets(ways: list[Any]) -> Iterator[list[Any]]:
    for size in range(len(ways) + 1):
        yield from map(list, combinations(ways, size))


def spelled(value: Any) -> list[str]:
    """Return all compact texts of `value`: one for each order of members."""
    if isinstance(value, list):
        return [f"[{','.join(parts)}]" for parts in _products([spelled(item) for item in value])]
    if isinstance(value, dict):
        members = [[f"{json.dumps(name)}:{text}" for text in spelled(item)] for name, item in value.items()]
        return [f"{{{','.join(parts)}}}" for order in permutations(members) for parts in _products(list(order))]
    return [json.dumps(value)]


class Texts:
    """A trie of texts, by next bytes of each beginning."""

    def __init__(self, texts: list[bytes]) -> None:
        self.next: dict[bytes, set[int]] = {b"": set()}
        self.whole = set(texts)
        for text in texts:
            for k, byte in enumerate(text):
                self.next.setdefault(text[:k], set()).add(byte)


def follow(compiled: LazyGrammar, texts: Texts, pick: random.Random) -> None:
    """Walk through listed texts; every mask offers what goes on in the list, and longer tokens that lead to it."""
    vocabulary, matcher, text = compiled.vocabulary, compiled.matcher(), b""
    while True:
        tokens = allowed(matcher, vocabulary)
        expected = texts.next.get(text, set())
        offered = {token for token in tokens if token < 256 and token in _PLAIN}
        if offered - expected:
            raise Finding(f"leads nowhere after {text!r}: {bytes(sorted(offered - expected))!r}")
        if expected - offered:
            raise Finding(f"refuses the valid after {text!r}: {bytes(sorted(expected - offered))!r}")
        if matcher.can_stop != (text in texts.whole):
            raise Finding(f"may {'' if matcher.can_stop else 'not '}end after {text!r}")
        words = [vocabulary.words[token] for token in tokens]
        for word in words:
            if word and _PLAIN.issuperset(word) and text + word not in texts.next and text + word not in texts.whole:
                raise Finding(f"leads nowhere after {text!r}: {word!r}")
        if not expected:
            return
        byte = pick.choice(sorted(expected))
        matcher.accept(byte)
        text += bytes([byte])


def wander(compiled: LazyGrammar, judge: Any, pick: random.Random) -> None:
    """Draw any tokens for a while, then take the short way to the end, which must be there."""
    vocabulary, matcher, text = compiled.vocabulary, compiled.matcher(), b""
    for _ in range(pick.randrange(1, 60)):
        tokens = offered(matcher, text, compared=False)
        if not tokens:
            break
        plain = [token for token in tokens if _PLAIN.issuperset(vocabulary.words[token])]
        token = pick.choice(plain if plain and pick.random() < 0.8 else tokens)
        matcher.accept(token)
        text += vocabulary.words[token]
    text += finish(matcher, text)
    if not judge.is_valid(json.loads(text)):
        raise Finding(f"invalid: {text!r}")


def case(seed: int) -> str:
    """Try one schema. Return what came of it: a kind of refusal, "compiled", or a finding."""
    pick = random.Random(f"small:{seed}")
    schema: Any = None
    try:
        schema, candidates = Draw(pick).whole()
        judge = jsonschema_rs.validator_for(schema)
        texts = [text for value in candidates if judge.is_valid(value) for text in spelled(value)]
        if len(texts) > _MOST_TEXTS:
            return "too many"
        return _tried(schema, judge, Texts([text.encode() for text in texts]), pick)
    except TooMany:
        return "too many"
    except Finding as error:
        return f"FINDING {error} under {json.dumps(schema)}"
    except Exception as error:
        return f"{unexpected(error)} under {json.dumps(schema)}"


def _tried(schema: Any, judge: Any, texts: Texts, pick: random.Random) -> str:
    try:
        compiled = compile_json_schema(schema, byte_vocabulary(), options=COMPACT)
        free = compile_json_schema(schema, byte_vocabulary(), options=FREE)
    except Unsatisfiable:
        if texts.whole:
            raise Finding(f"refused, but {sorted(texts.whole, key=len)[0]!r} is valid") from None
        return "unsatisfiable"
    except GrammarError as error:
        return type(error).__name__
    if not texts.whole:
        raise Finding("compiled, but nothing is valid")
    for _ in range(6):
        follow(compiled, texts, pick)
    for _ in range(6):
        wander(free, judge, pick)
    return "compiled"


if __name__ == "__main__":
    run(__doc__, lambda _, seed: case(seed))
