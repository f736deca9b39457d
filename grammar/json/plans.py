"""What satisfies a conjunction of facts: its value set, its plans, and whether there is any value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.contradictions import reason
from sluicegate.grammar.json.arrays import planner as array_planner
from sluicegate.grammar.json.arrays.plan import ArrayPlan, Counting
from sluicegate.grammar.json.arrays.unique_items import UniqueItems
from sluicegate.grammar.json.blocked_strings import unblocked
from sluicegate.grammar.json.members import member_terms, surely_has_value
from sluicegate.grammar.json.object_plan import ObjectPlan
from sluicegate.grammar.json.object_planner import ObjectPlanner
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.lexemes.digits import NumberDigits
from sluicegate.grammar.lexemes.scalars import number_lexemes
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.guards import Checked, Guard, all_of
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.checks import Checks
from sluicegate.grammar.schema.containers import Array, Conjunction, Fact, Object, SchemaRef
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.numbers import NumberSet
from sluicegate.grammar.schema.semantics import Circular, Semantics
from sluicegate.grammar.schema.value_set import ValueSet
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

_OF_PLAN = 100
_UNKNOWN: Any = object()
_DEEP = 30
"""Values within values that are planned while asking whether there is one at all; what lies deeper, as in schemas of
hundreds of settings each of which may hold all others, is planned when a text gets there."""
_Spec = TypeVar("_Spec", Object, Array)
_Plan = TypeVar("_Plan", ObjectPlan, ArrayPlan)


class Plans:
    """Plans of one compiled grammar. Mutable: remembers what depends on the schema alone; two OS threads that work out
    the same answer do no harm."""

    def __init__(self, document: SchemaDocument | None, options: GrammarOptions) -> None:
        self.options = options
        self.blocklist = options.blocked
        self._digits = NumberDigits(options.integer_digits, options.fraction_digits)
        self.semantics = Semantics(options.limits)
        self.checks = Checks(document) if document is not None else None
        self._objects: dict[Object, ObjectPlan | None] = {}
        self._arrays: dict[Array, ArrayPlan | None] = {}
        self._counting: dict[ArrayPlan, Counting] = {}
        self._satisfiable: dict[Conjunction, bool] = {}
        self._asking: set[Conjunction] = set()
        self._assumed = False
        self._object_planner = ObjectPlanner(self)
        self._unique_items = UniqueItems(self)
        self._unblocked_sets: dict[Conjunction, ValueSet] = {}

    # --- meaning ---

    def pointer(self, terms: Conjunction) -> str:
        """Return the pointer to the first schema among `terms`, for messages."""
        return next((fact.node.pointer for fact in terms if isinstance(fact, SchemaRef)), "")

    def value_set(self, terms: Conjunction) -> ValueSet:
        look()
        try:
            found = self.semantics.of_conjunction(terms)
            kinds, most = max(len(found.objects), len(found.arrays)), self.options.limits.readings
            if kinds > most:
                raise GrammarLimit(
                    f"a value has {kinds} kinds of objects or of arrays (anyOf, oneOf), of which at most {most} are "
                    "followed at the same time: split the schema, or raise limits.readings in "
                    "[stages.constrain.grammar]",
                    pointer=self.pointer(terms),
                )
            return found if self.blocklist is None else self._unblocked_set(terms, found)
        except Circular:
            raise InvalidGrammar(
                "this schema refers to itself without a value in between", pointer=self.pointer(terms)
            ) from None

    def _unblocked_set(self, terms: Conjunction, found: ValueSet) -> ValueSet:
        """Return `found`, the value set of `terms`, without blocked strings."""
        known = self._unblocked_sets.get(terms)
        if known is None:
            assert self.blocklist is not None
            left = unblocked(self.blocklist, found.strings)
            # The same object where nothing is blocked: lexemes are found by it, and shared by values of one set.
            known = found if left is found.strings else replace(found, strings=left)
            self._unblocked_sets[terms] = known
        return known

    def satisfiable(self, terms: Conjunction) -> bool:
        """Return whether some value satisfies all of `terms`, as far as conjunctions tell.

        A value nested in itself without end is none, so what is still being asked counts as unsatisfiable; an answer
        that rests on this is not remembered.
        """
        known = self._satisfiable.get(terms)
        if known is not None:
            return known
        if surely_has_value(terms):
            return True
        if terms in self._asking:
            self.assume()
            return False
        outer, self._assumed = self._assumed, False
        self._asking.add(terms)
        try:
            answer = self._has_value(self.value_set(terms))
        finally:
            self._asking.discard(terms)
        if answer or not self._assumed or not self._asking:
            self._satisfiable[terms] = answer
        self._assumed = self._assumed or outer
        return answer

    def _has_value(self, value_set: ValueSet) -> bool:
        if value_set.null or value_set.booleans or not strings.is_empty(value_set.strings):
            return True
        if self.number_lexemes(value_set.numbers):
            return True
        if any(self.array_plan(spec) is not None for spec in value_set.arrays):
            return True
        return any(self._has_object(spec) for spec in value_set.objects)

    def number_lexemes(self, found: NumberSet) -> tuple[Lexeme, ...]:
        """Return the lexemes of these numbers, with as many digits as the options allow."""
        return number_lexemes(found, self._digits)

    def _has_object(self, spec: Object) -> bool:
        if len(self._asking) > _DEEP and spec not in self._objects:
            exists = self._object_planner.exists(spec)
            if exists is not None:
                return exists
        return self.object_plan(spec) is not None

    def why_not(self, terms: Conjunction) -> tuple[str, str]:
        """Return (pointer to a required part that has no value, as deep as it can be followed; reason in words, if
        seen)."""
        found = self.pointer(terms), reason(terms)
        if found[1]:
            return found
        try:
            for spec in self.value_set(terms).objects:
                for name in spec.required:
                    below = member_terms(spec, name, ())
                    if not self.satisfiable(below) and any(isinstance(fact, SchemaRef) for fact in below):
                        return self.why_not(below)
        except RecursionError:
            pass
        return found

    # --- plans ---

    def object_plan(self, spec: Object) -> ObjectPlan | None:
        """Return the plan of the objects that satisfy `spec`, or None where there are none."""
        found = self._objects.get(spec, _UNKNOWN)
        return self._planned(self._objects, spec, self._object_planner.plan) if found is _UNKNOWN else found

    def array_plan(self, spec: Array) -> ArrayPlan | None:
        """Return the plan of the arrays that satisfy `spec`, or None where there are none."""
        found = self._arrays.get(spec, _UNKNOWN)
        return self._planned(self._arrays, spec, partial(array_planner.plan_of, self)) if found is _UNKNOWN else found

    def _planned(
        self, known: dict[_Spec, _Plan | None], spec: _Spec, make: Callable[[_Spec], _Plan | None]
    ) -> _Plan | None:
        """Make the plan of `spec` with `make`. It is kept in `known` unless it leaves out what is still being asked."""
        charge(_OF_PLAN)
        assumed, self._assumed = self._assumed, False
        plan = make(spec)
        tentative = self._assumed and bool(self._asking)
        self._assumed = self._assumed or assumed
        if not tentative:
            known[spec] = plan
        return plan

    def assume(self) -> None:
        """Note that what is being asked rests on an assumption, so that its answer is not remembered."""
        self._assumed = True

    def without(self, plan: ArrayPlan, facts: frozenset[Fact], item: Any) -> frozenset[Fact]:
        """Return what later items of a tight plan satisfy after `item`, besides their own terms; `facts`: what they did
        before it."""
        return self._unique_items.without(plan, facts, item)

    def counting(self, plan: ArrayPlan) -> Counting:
        found = self._counting.get(plan)
        if found is None:
            found = self._counting[plan] = Counting(plan, self.satisfiable)
        return found

    def refuses(self, value: Any, facts: frozenset[Fact]) -> bool:
        """Return whether a check of `facts` surely refuses `value`."""
        return self.checks is not None and any(self.checks.validator(f)(value) != f.positive for f in facts)

    def check(self, facts: frozenset[Fact]) -> Guard | None:
        if not facts:
            return None
        assert self.checks is not None
        return all_of(*(Checked(self.checks.validator(fact), fact.positive) for fact in sorted(facts, key=repr)))
