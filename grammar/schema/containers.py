"""Constraints on objects and arrays, as conjunctions that can be intersected and, mostly, complemented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.sets_by_name import SetsByName
from sluicegate.grammar.schema.strings import Strings, StringSet
from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.plugins.frozen import frozen_when_checked

_FEW = 8
"""With at most this many properties of which one must differ, they become alternatives; more become one
`Existential`."""


class SchemaRef(NamedTuple):
    """The value satisfies `node`, or (`positive` False) does not. A tuple, because facts are the keys of most tables
    and tuples hash without a call of Python."""

    node: Subschema
    positive: bool = True


class Constant(NamedTuple):
    """The value equals `json`, canonical JSON text of a constant, or (`positive` False) does not."""

    json: str
    positive: bool = True


class NoneOf(NamedTuple):
    """The value is none of these strings, nor one of these numbers, spelled canonically."""

    texts: GivenTexts
    numbers: GivenTexts
    positive: bool = True


Fact = SchemaRef | Constant | NoneOf
Conjunction = tuple[Fact, ...]
"""All of them hold; () = any value. In the order of the schema, without repetitions."""
NEVER: Conjunction = (Constant(""),)
"""No value is possible: the `Constant` without a spelling."""
Way = tuple[StringSet, Conjunction]
"""A property of a set of names, and the terms that its value satisfies."""


def conjunction(terms: Iterable[Fact]) -> Conjunction:
    return tuple(dict.fromkeys(terms))


class _Hashed:
    """Keeps its hash. For frozen dataclasses that are looked up often, with `__hash__ = _Hashed.__hash__`. Their fields
    lie in slots; it has none itself, so that there is room for what is worked out once."""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple([getattr(self, name) for name in self.__dataclass_fields__]))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self._hash


def negated(term: Fact) -> Fact:
    return term._replace(positive=not term.positive)


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Members(_Hashed):
    """`properties`, `patternProperties` and `additionalProperties` of one schema, which act together.

    `rest`: for names that are not in `named` and match no pattern; None = anything. `silent`: from a negation, which
    evaluates nothing for `unevaluatedProperties`.
    """

    named: tuple[tuple[str, Conjunction], ...] = ()
    patterns: tuple[tuple[str, Conjunction], ...] = ()
    rest: Conjunction | None = None
    silent: bool = False
    __hash__ = _Hashed.__hash__

    @cached_property
    def by_name(self) -> dict[str, Conjunction]:
        return dict(self.named)


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Existential(_Hashed):
    """An existential constraint: some property has, in one of these `ways`, a name of the set and a value that
    satisfies the terms, or a name of `absent` is missing. `origin`: the fact that it is a part of, checked where plans
    cannot count it."""

    ways: tuple[Way, ...]
    absent: frozenset[str]
    origin: Fact
    __hash__ = _Hashed.__hash__

    @cached_property
    def _by_name(self) -> SetsByName:
        return SetsByName(language for language, _ in self.ways)

    def ways_about(self, name: str) -> list[Way]:
        """Return those of `ways` that `name` can take, in order: of a `not` with thousands of properties one or two."""
        found = [self.ways[place] for place in self._by_name.about(name)]
        charge(1 + len(found))
        return [way for way in found if strings.contains(way[0], name)]


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Object(_Hashed):
    parts: tuple[Members, ...] = ()
    required: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()
    low: int = 0
    high: int | None = None
    names: StringSet = strings.EVERY
    existentials: tuple[Existential, ...] = ()
    every: tuple[Way, ...] = ()
    """Conditions on each property whose name is in the set; from negations."""
    checks: frozenset[Fact] = frozenset()
    """Facts that are checked when the value ends."""
    __hash__ = _Hashed.__hash__

    @cached_property
    def _listing(self) -> dict[str, list[int]]:
        """Return, by name, the places in `parts` of those that list it."""
        found: dict[str, list[int]] = {}
        for at, part in enumerate(self.parts):
            for name, _ in part.named:
                found.setdefault(name, []).append(at)
        return found

    @cached_property
    def _general(self) -> list[int]:
        """Return the places in `parts` of those that say something of names that they do not list."""
        return [at for at, part in enumerate(self.parts) if part.patterns or part.rest is not None]

    @cached_property
    def _every_by_name(self) -> SetsByName:
        return SetsByName(language for language, _ in self.every)

    def every_about(self, name: str) -> list[StringSet]:
        """Return the sets of `every` that hold `name`."""
        if not self.every:
            return []
        found = [self.every[place][0] for place in self._every_by_name.about(name)]
        charge(len(found))
        return [language for language in found if strings.contains(language, name)]

    def parts_about(self, name: str | None) -> Sequence[Members]:
        """Return those of `parts` that may say something of `name` (None: a name that none of them lists)."""
        if len(self.parts) <= _FEW:
            return self.parts
        listing = [] if name is None else self._listing.get(name, [])
        return [self.parts[at] for at in sorted({*listing, *self._general})]

    def meet(self, other: Object) -> Object | None:
        """Intersect; None where nothing can satisfy both."""
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        met = Object(
            tuple(dict.fromkeys(self.parts + other.parts)),
            tuple(dict.fromkeys(self.required + other.required)),
            self.absent | other.absent,
            max(self.low, other.low),
            high,
            strings.intersect(self.names, other.names),
            tuple(dict.fromkeys(self.existentials + other.existentials)),
            tuple(dict.fromkeys(self.every + other.every)),
            self.checks | other.checks,
        )
        return None if met.contradicts() else met

    def contradicts(self) -> bool:
        """Return whether this is obviously empty."""
        low = max(self.low, len(self.required))
        return (
            (self.high is not None and low > self.high)
            or not self.absent.isdisjoint(self.required)
            or (
                self.names is not strings.EVERY
                and any(not strings.contains(self.names, name) for name in self.required)
            )
            or any(not some.ways and some.absent.issubset(self.required) for some in self.existentials)
        )


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Items(_Hashed):
    """`prefixItems` and `items` of one schema; `rest` None = anything. `silent` as in `Members`."""

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction | None = None
    silent: bool = False
    __hash__ = _Hashed.__hash__


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Contains:
    """Between `low` and `high` (None: any number) of the items from index `start` on satisfy `term`. `silent` as in
    `Members`."""

    term: Fact
    low: int = 1
    high: int | None = None
    start: int = 0
    silent: bool = False


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Array(_Hashed):
    parts: tuple[Items, ...] = ()
    low: int = 0
    high: int | None = None
    unique: bool = False
    repeats: bool = False
    """Whether two items must be equal."""
    contains: tuple[Contains, ...] = ()
    checks: frozenset[Fact] = frozenset()
    __hash__ = _Hashed.__hash__

    def meet(self, other: Array) -> Array | None:
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        met = Array(
            self.parts + tuple(p for p in other.parts if p not in self.parts),
            max(self.low, other.low),
            high,
            self.unique or other.unique,
            self.repeats or other.repeats,
            self.contains + tuple(c for c in other.contains if c not in self.contains),
            self.checks | other.checks,
        )
        low = max([met.low, *(c.start + c.low for c in met.contains if c.low)])
        return None if (met.high is not None and low > met.high) or (met.unique and met.repeats) else met

    def at(self, index: int) -> Conjunction:
        """Return the conjunction that the item at `index` must satisfy."""
        terms: list[Fact] = []
        for part in self.parts:
            if index < len(part.prefix):
                terms.extend(part.prefix[index])
            elif part.rest is not None:
                terms.extend(part.rest)
        return conjunction(terms)

    @property
    def prefix_size(self) -> int:
        return max((len(part.prefix) for part in self.parts), default=0)


NO_MEMBERS, NO_ITEMS = Members(), Items()
EVERY_OBJECT, EVERY_ARRAY = Object(), Array()
"""What a schema without any keyword says; made once."""


def complement_object(
    spec: Object, match: Callable[[str], StringSet], origin: Fact, merged: bool
) -> list[Object] | None:
    """Return the objects that are not in `spec` as alternatives; None where conjunctions cannot express them.

    `origin`: the negated fact that `spec` is part of. `merged`: make few alternatives, with one existential constraint
    for many. `match`: the names that a pattern matches.
    """
    if spec.checks or any(len(terms) > 1 for some in spec.existentials for _, terms in some.ways):
        return None
    lone = _lone_name(spec)
    if lone is not None:
        found = [Object(parts=(Members(named=(lone,), silent=True),))]
    else:
        found = _violations(spec, match, origin, merged)
    if lone is None and not merged:
        found.extend(Object(absent=frozenset({name})) for name in spec.required)
        found.extend(Object(required=(name,)) for name in sorted(spec.absent))
    if spec.low:
        found.append(Object(high=spec.low - 1))
    if spec.high is not None:
        found.append(Object(low=spec.high + 1))
    return [*found, *map(_unmet, spec.existentials)]


def _lone_name(spec: Object) -> tuple[str, Conjunction] | None:
    """Complement a `spec` about one required property alone: return its name and what its value is outside of
    `spec`."""
    if len(spec.required) != 1 or len(spec.parts) != 1 or spec.absent or spec.names != strings.EVERY or spec.every:
        return None
    part = spec.parts[0]
    if part.patterns or part.rest or len(part.named) != 1 or part.named[0][0] != spec.required[0]:
        return None
    terms = part.named[0][1]
    return (spec.required[0], (negated(terms[0]),)) if len(terms) == 1 else None


def _violations(spec: Object, match: Callable[[str], StringSet], origin: Fact, merged: bool) -> list[Object]:
    """Return objects of which some property violates `spec`; `merged`: or is missing, or there, against `spec`."""
    named = [(name, negated(term)) for part in spec.parts for name, terms in part.named for term in terms]
    ways: list[tuple[StringSet, Conjunction]] = []
    for part in spec.parts:
        others: StringSet = (Strings(minus=frozenset(part.by_name)),) if part.named else strings.EVERY
        for text, terms in part.patterns:
            ways.extend((match(text), _without_never(negated(term))) for term in terms)
            if part.rest:
                others = strings.intersect(others, strings.complement(match(text)))
        ways.extend((others, _without_never(negated(term))) for term in part.rest or ())
    ways.extend((language, _without_never(negated(term))) for language, terms in spec.every for term in terms)
    if spec.names != strings.EVERY:
        ways.append((strings.complement(spec.names), ()))
    found = []
    if merged or len(named) > _FEW:
        ways.extend((_only(name), _without_never(term)) for name, term in named)
    else:
        for name, term in named:
            found.append(Object(parts=(Members(named=((name, (term,)),), silent=True),), required=(name,)))
    absent = frozenset(spec.required if merged else ())
    if merged:
        ways.extend((_only(name), ()) for name in sorted(spec.absent))
    return [*found, Object(existentials=(Existential(tuple(ways), absent, origin),))] if ways or absent else found


def _unmet(some: Existential) -> Object:
    """Return the objects that violate `some`, each of whose ways has one term at most."""
    parts = dict.fromkeys(part for language, terms in some.ways if not terms for part in language)
    listed = frozenset(word for part in parts if part.words is not None for word in part.words if part.has(word))
    names = strings.complement((Strings(words=listed), *[part for part in parts if part.words is None]))
    every = tuple((language, (negated(terms[0]),)) for language, terms in some.ways if terms)
    return Object(required=tuple(sorted(some.absent)), names=names, every=every)


def implied(name: str, spec: Object, origin: Fact) -> Object | None:
    """Return the objects that satisfy `spec` or lack property `name`, as one conjunction; None where there is none."""
    if spec.checks or spec.every or spec.low > 1 or spec.high is not None or spec.names != strings.EVERY:
        return None
    without = frozenset({name})
    found = [Existential(some.ways, some.absent | without, origin) for some in spec.existentials]
    for part in spec.parts:
        if part.rest is not None or part.patterns:
            return None
        for other, terms in part.named:
            found.extend(Existential(((_only(other), (term,)),), without | {other}, origin) for term in terms)
    found.extend(Existential(((_only(other), ()),), without, origin) for other in spec.required if other != name)
    found.extend(Existential((), without | {other}, origin) for other in sorted(spec.absent))
    return Object(existentials=tuple(found))


def _only(name: str) -> StringSet:
    return (Strings(words=frozenset({name})),)


def _without_never(term: Fact) -> Conjunction:
    """Drop a term that every value satisfies."""
    return () if term == negated(NEVER[0]) else (term,)


def complement_array(spec: Array) -> list[Array] | None:
    """Return the arrays that are not in `spec` as alternatives; None where conjunctions cannot express them."""
    found: list[Array] = []
    if spec.checks:
        return None
    if spec.unique:
        found.append(Array(low=2, repeats=True))
    if spec.repeats:
        found.append(Array(unique=True))
    for part in spec.parts:
        for i, terms in enumerate(part.prefix):
            for term in terms:
                items = Items(prefix=(*((),) * i, (negated(term),)), silent=True)
                found.append(Array(parts=(items,), low=i + 1))
        size = len(part.prefix)
        if part.rest == NEVER:
            found.append(Array(low=size + 1))
        else:
            found.extend(
                Array(contains=(Contains(negated(term), start=size, silent=True),)) for term in part.rest or ()
            )
    if spec.low:
        found.append(Array(high=spec.low - 1))
    if spec.high is not None:
        found.append(Array(low=spec.high + 1))
    for wanted in spec.contains:
        if wanted.low:
            found.append(Array(contains=(replace(wanted, low=0, high=wanted.low - 1, silent=True),)))
        if wanted.high is not None:
            found.append(Array(contains=(replace(wanted, low=wanted.high + 1, high=None, silent=True),)))
    return found
