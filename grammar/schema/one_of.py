"""`oneOf`: values in exactly one of several sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.containers import Array, Object, SchemaRef
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.value_set import NOTHING, OUTSIDE, ValueSet, ValueSetAlgebra

T = TypeVar("T")
_LONG = 64
"""Most branches that are compared pairwise."""


class OneOf(ValueSetAlgebra):
    """Unites branches that surely have no value in common, and takes from the others what is in another branch."""

    def exactly_one(
        self, value_sets: list[ValueSet], origin: Subschema, thorough: bool = False, given: tuple[str, ...] = ()
    ) -> ValueSet:
        """Return the values in just one of `value_sets`, the branches of `origin`'s `oneOf`.

        Objects and arrays of branches that overlap in too many ways are left to a check that `origin` holds. `given`:
        properties that the caller requires of every object anyway; of objects without them, the answer says nothing.
        """
        told = self._told_apart([value_set.objects for value_set in value_sets], given)
        if len(value_sets) > _LONG:
            return self._one_of_many(value_sets, origin, told)
        result = NOTHING
        outsides: dict[tuple[int, bool], ValueSet] = {}

        def outside(j: int, merged: bool = False) -> ValueSet:
            if (j, merged) not in outsides:
                outsides[j, merged] = self.complement(value_sets[j], SchemaRef(origin.child("oneOf", j)), merged)
            return outsides[j, merged]

        check = frozenset({SchemaRef(origin)})
        for i, value_set in enumerate(value_sets):
            others = [j for j in range(len(value_sets)) if j != i]
            only = value_set
            for j in others:
                if self._scalars_meet(only, value_sets[j]):
                    only = self._scalars_without(only, outside(j))
            arrays = self._only(
                value_set.arrays,
                [(value_sets[j].arrays, j) for j in others],
                lambda j: outside(j).arrays,
                Array.meet,
                Array(),
                (),
            )
            objects = value_set.objects if told else None
            for merged in (False, True):
                if objects is None:
                    objects = self._only(
                        value_set.objects,
                        [(value_sets[j].objects, j) for j in others],
                        lambda j, merged=merged: outside(j, merged).objects,  # type: ignore[misc]
                        Object.meet,
                        Object(),
                        given,
                    )
            if arrays is None:
                arrays = tuple(replace(spec, checks=spec.checks | check) for spec in value_set.arrays)
            if objects is None:
                objects = tuple(replace(spec, checks=spec.checks | check) for spec in value_set.objects)
            result = self.union(result, replace(only, arrays=arrays, objects=objects), thorough)
        return result

    def _told_apart(self, branches: list[tuple[Object, ...]], given: tuple[str, ...]) -> bool:
        """Return whether a property that all have surely has another value in each branch, such as a `const`. Linear,
        where a look at each pair would be quadratic."""
        branches = [branch for branch in branches if branch]
        names = (*given, *branches[0][0].required) if branches else ()
        return any(self._tells_apart(name, branches, name in given) for name in dict.fromkeys(names))

    def _tells_apart(self, name: str, branches: list[tuple[Object, ...]], given: bool) -> bool:
        taken: set[object] = set()
        for branch in branches:
            mine: set[object] = set()
            for spec in branch:
                values = self.member_values(spec, name) if given or name in spec.required else None
                if values is None or not taken.isdisjoint(values):
                    return False
                mine |= values
            taken |= mine
        return True

    @abstractmethod
    def member_values(self, spec: Object, name: str) -> frozenset[object] | None:
        """Return the values that property `name` of `spec` may have, or a superset; None where they are many."""

    def _only(
        self,
        alternatives: tuple[T, ...],
        others: list[tuple[tuple[T, ...], int]],
        outside: Callable[[int], tuple[T, ...]],
        meet: Callable[[T, T], T | None],
        top: T,
        given: tuple[str, ...],
    ) -> tuple[T, ...] | None:
        """Take all `others` from `alternatives`; `outside(j)`: complement of the j-th. None where too many are left."""
        kept = alternatives
        for other, j in others:
            if not all(self.apart(mine, theirs, given) for mine in kept for theirs in other):
                kept = self._less(kept, other, outside(j), meet, top, given)
            if len(kept) > max(OUTSIDE, len(alternatives)):
                return None
        return kept

    def _one_of_many(self, value_sets: list[ValueSet], origin: Subschema, told: bool) -> ValueSet:
        """Return what is in some branch and not in two, for long lists; containers are checked, but objects that a
        property tells apart (`told`)."""
        check = frozenset({SchemaRef(origin)})
        met = [(value_set, NOTHING) for value_set in value_sets]
        while len(met) > 1:
            joined = [
                (self.union(a, b), self.union(self.union(twice, again), self._scalars_within(a, b)))
                for (a, twice), (b, again) in zip(met[::2], met[1::2], strict=False)
            ]
            met = joined + met[len(met) & ~1 :]
        once, twice = met[0]
        only = self._scalars_without(once, self.complement(twice, SchemaRef(origin)))
        return replace(
            only,
            arrays=tuple(replace(spec, checks=spec.checks | check) for spec in once.arrays),
            objects=once.objects if told else tuple(replace(spec, checks=spec.checks | check) for spec in once.objects),
        )

    def _scalars_within(self, a: ValueSet, b: ValueSet) -> ValueSet:
        return replace(self._scalars_without(a, b), arrays=(), objects=())

    def _scalars_meet(self, a: ValueSet, b: ValueSet) -> bool:
        return (
            (a.null and b.null)
            or bool(a.booleans & b.booleans)
            or bool(a.numbers and b.numbers)
            or (a.strings != strings.NOTHING and b.strings != strings.NOTHING)
        )

    def _scalars_without(self, value_set: ValueSet, outside: ValueSet) -> ValueSet:
        return replace(
            value_set,
            null=value_set.null and outside.null,
            booleans=value_set.booleans & outside.booleans,
            numbers=numbers.intersect(value_set.numbers, outside.numbers),
            strings=strings.intersect(value_set.strings, outside.strings),
        )

    def _less(
        self,
        alternatives: tuple[T, ...],
        others: tuple[T, ...],
        outside: tuple[T, ...],
        meet: Callable[[T, T], T | None],
        top: T,
        given: tuple[str, ...],
    ) -> tuple[T, ...]:
        """Take `others` from `alternatives`; those that cannot meet them stay as they are."""
        kept: list[T] = []
        for alternative in alternatives:
            if all(self.apart(alternative, other, given) for other in others):
                kept.append(alternative)
            else:
                kept.extend(self._products((alternative,), outside, meet, top, ""))
        return tuple(dict.fromkeys(kept))

    def apart(self, a: object, b: object, given: tuple[str, ...] = ()) -> bool:
        """Return whether surely no value is in both, or no object with the `given` properties."""
        if isinstance(a, Object) and isinstance(b, Object):
            return self._objects_apart(a, b, given)
        if isinstance(a, Array) and isinstance(b, Array):
            return a.meet(b) is None
        return False

    def _objects_apart(self, a: Object, b: Object, given: tuple[str, ...]) -> bool:
        met = a.meet(b)
        if met is None:
            return True
        return any(self.hopeless_member(met, name) for name in dict.fromkeys(met.required + given))
