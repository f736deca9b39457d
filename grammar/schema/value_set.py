"""Sets of JSON values by type, with union, intersection and complement.

Scalars are exact. Objects and arrays are lists of alternatives, each a conjunction; what a conjunction cannot express
is checked on the finished value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.containers import (
    EVERY_ARRAY,
    EVERY_OBJECT,
    Array,
    Fact,
    Object,
    complement_array,
    complement_object,
    negated,
)
from sluicegate.grammar.schema.numbers import NumberSet
from sluicegate.grammar.schema.strings import StringSet
from sluicegate.plugins.errors import GrammarLimit
from sluicegate.plugins.frozen import frozen_when_checked

T = TypeVar("T")
OUTSIDE = 8
"""Most alternatives of a complement that become readings of their own; beyond that, an existential constraint stands
for them."""
_OF_PAIR, _OF_INTERSECTION = 8, 10
"""Work charged for a pair of alternatives of objects or arrays that are put together, and for two sets of values."""
_MOST_PAIRS = 2_000
"""Most pairs of alternatives in one schema that are tested for common values."""
_ARRAYS = 32
"""The same limit as `OUTSIDE` for arrays, which have no existential constraints."""
_MERGED = 16
"""The same limit once existential constraints are used wherever possible; beyond that the value is checked."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class ValueSet:
    null: bool = True
    booleans: frozenset[bool] = frozenset({True, False})
    numbers: NumberSet = numbers.EVERY
    strings: StringSet = strings.EVERY
    arrays: tuple[Array, ...] = (EVERY_ARRAY,)
    objects: tuple[Object, ...] = (EVERY_OBJECT,)


EVERYTHING = ValueSet()
NOTHING = ValueSet(False, frozenset(), numbers.NOTHING, strings.NOTHING, (), ())
_UNSPECIFIC = {
    "arrays": ((), (EVERY_ARRAY,)),
    "objects": ((), (EVERY_OBJECT,)),
    "strings": (strings.NOTHING, strings.EVERY),
}


def is_unspecific(value_set: ValueSet) -> bool:
    """Return whether `value_set` has objects or arrays, and all there are of each kind that it has; the same of
    strings."""
    if not value_set.objects and not value_set.arrays:
        return False
    return all(getattr(value_set, kind) in whole for kind, whole in _UNSPECIFIC.items())


class ValueSetAlgebra(ABC):
    """Operations that make at most `limit` alternatives. `pointer`: the place named in errors."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pairs = 0
        self._looking = False

    def intersect(self, a: ValueSet, b: ValueSet, pointer: str = "") -> ValueSet:
        if a is EVERYTHING:
            return b
        if b is EVERYTHING:
            return a
        charge(_OF_INTERSECTION)
        return ValueSet(
            a.null and b.null,
            a.booleans & b.booleans,
            numbers.intersect(a.numbers, b.numbers),
            strings.intersect(a.strings, b.strings),
            self._products(a.arrays, b.arrays, Array.meet, EVERY_ARRAY, pointer),
            self._products(a.objects, b.objects, Object.meet, EVERY_OBJECT, pointer),
        )

    def narrow(self, a: ValueSet, b: ValueSet, origin: Fact, most: int | None = None) -> ValueSet:
        """Intersect, or check the finished value against `origin`, whose set `b` is, where that makes too many
        alternatives (of objects `most`), not counting those that surely have no value."""
        try:
            if most is not None and len(a.objects) * len(b.objects) > most:
                raise GrammarLimit("too many alternatives")
            return self.intersect(a, b)
        except GrammarLimit:
            check = frozenset({origin})
            try:
                hopeful = None if most is not None else self._hopeful(a.objects, b.objects)
                if hopeful is not None:
                    top = (EVERY_OBJECT,)
                    rest = self.intersect(replace(a, objects=top), replace(b, objects=top))
                    return replace(rest, objects=hopeful)
            except GrammarLimit:
                pass
            loose = replace(b, arrays=(Array(checks=check),), objects=(Object(checks=check),))
            return self.intersect(a, loose)

    def _hopeful(self, a: tuple[Object, ...], b: tuple[Object, ...]) -> tuple[Object, ...] | None:
        """Intersect objects, without alternatives of which a required property surely has no value. None: too many."""
        self._pairs += len(a) * len(b)
        if self._pairs > _MOST_PAIRS or self._looking:
            return None
        charge(_OF_PAIR * len(a) * len(b))
        self._looking = True
        try:
            met = dict.fromkeys(found for x in a for y in b if (found := x.meet(y)) is not None)
            kept = tuple(spec for spec in met if not any(self.hopeless_member(spec, name) for name in spec.required))
        finally:
            self._looking = False
        return kept if len(kept) <= self.limit else None

    def _products(
        self, a: tuple[T, ...], b: tuple[T, ...], meet: Callable[[T, T], T | None], top: T, pointer: str
    ) -> tuple[T, ...]:
        if a == (top,):
            return b
        if b == (top,):
            return a
        if len(a) > 1 and len(b) > 1 and len(a) * len(b) > self.limit:
            raise GrammarLimit(
                f"the alternatives multiply to more than {self.limit}; name a `const` property that tells them apart, "
                "or raise limits.alternatives in [stages.constrain.grammar]",
                pointer=pointer,
            )
        charge(_OF_PAIR * len(a) * len(b))
        met = (meet(x, y) for x in a for y in b)
        return tuple(dict.fromkeys(m for m in met if m is not None))

    def union(self, a: ValueSet, b: ValueSet, thorough: bool = False) -> ValueSet:
        """Unite. `thorough`: keep every alternative, even one that allows all: each evaluates something else."""
        if a is NOTHING:
            return b
        if b is NOTHING:
            return a
        return ValueSet(
            a.null or b.null,
            a.booleans | b.booleans,
            numbers.union(a.numbers, b.numbers),
            strings.union(a.strings, b.strings),
            _either(a.arrays, b.arrays, EVERY_ARRAY, thorough),
            _either(a.objects, b.objects, EVERY_OBJECT, thorough),
        )

    def complement(self, value_set: ValueSet, origin: Fact, merged: bool = False) -> ValueSet:
        """Return the values outside. Containers that conjunctions cannot complement are checked to fail `origin`.

        `merged`: make as few alternatives of objects as possible, even where there would not be too many.
        """
        failing = negated(origin)

        def objects(spec: Object, merged: bool) -> list[Object] | None:
            return complement_object(spec, self.match, failing, merged)

        check = frozenset({failing})
        arrays = self._outside_arrays(value_set.arrays)
        outside = None
        if not merged:
            outside = self._outside(
                value_set.objects, partial(objects, merged=False), Object.meet, EVERY_OBJECT, OUTSIDE
            )
        if outside is None:
            outside = self._outside(
                value_set.objects, partial(objects, merged=True), Object.meet, EVERY_OBJECT, _MERGED
            )
        return ValueSet(
            not value_set.null,
            frozenset({True, False}) - value_set.booleans,
            numbers.complement(value_set.numbers),
            strings.complement(value_set.strings),
            (Array(checks=check),) if arrays is None else arrays,
            (Object(checks=check),) if outside is None else outside,
        )

    def _outside(
        self,
        alternatives: tuple[T, ...],
        complement_one: Callable[[T], list[T] | None],
        meet: Callable[[T, T], T | None],
        top: T,
        most: int,
    ) -> tuple[T, ...] | None:
        result: tuple[T, ...] = (top,)
        for alternative in alternatives:
            outside = complement_one(alternative)
            if outside is None or len(result) * len(outside) > most:
                return None
            result = self._products(result, tuple(outside), meet, top, "")
        return result

    def _outside_arrays(self, alternatives: tuple[Array, ...]) -> tuple[Array, ...] | None:
        """Complement arrays. Most pairs of alternatives contradict each other; only the others are counted."""
        result: tuple[Array, ...] = (EVERY_ARRAY,)
        for alternative in alternatives:
            outside = complement_array(alternative)
            if outside is None or len(result) * len(outside) > 4 * _ARRAYS:
                return None
            met = (mine.meet(other) for mine in result for other in outside)
            result = tuple(dict.fromkeys(found for found in met if found is not None))
            if len(result) > _ARRAYS:
                return None
        return result

    def union_all(self, value_sets: list[ValueSet], thorough: bool = False) -> ValueSet:
        """Unite two by two, which takes linear time for long lists."""
        while len(value_sets) > 1:
            pairs = zip(value_sets[::2], value_sets[1::2], strict=False)
            value_sets = [self.union(a, b, thorough) for a, b in pairs] + value_sets[len(value_sets) & ~1 :]
        return value_sets[0] if value_sets else NOTHING

    @abstractmethod
    def match(self, pattern: str) -> StringSet:
        """Return the names that `pattern` matches."""

    def hopeless_member(self, spec: Object, name: str) -> bool:
        """Return whether property `name` of `spec` surely has no value. Overridden where schemas are known."""
        return False


def _either(a: tuple[T, ...], b: tuple[T, ...], top: T, thorough: bool) -> tuple[T, ...]:
    if not thorough and (top in a or top in b):
        return (top,)
    return tuple(dict.fromkeys(a + b))


def few_scalars(value_set: ValueSet) -> tuple[frozenset[str], frozenset[Fraction]] | None:
    """List the strings and numbers of a set without containers; None where they are too many."""
    if value_set.objects or value_set.arrays:
        return None
    words, values = strings.finite_words(value_set.strings), numbers.finite_values(value_set.numbers)
    return None if words is None or values is None else (words, values)


def only(**kept: object) -> ValueSet:
    """Make a set of the given types only."""
    return replace(NOTHING, **kept)  # type: ignore[arg-type]
