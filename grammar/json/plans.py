"""Compute the value set of a conjunction of facts, its plans, and whether any value satisfies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.contradictions import reason
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.arrays import planner as array_planner
from sluicegate.grammar.json.arrays.listed import Choices
from sluicegate.grammar.json.arrays.plan import ArrayPlan, Counting
from sluicegate.grammar.json.arrays.unique_items import UniqueItems, with_facts
from sluicegate.grammar.json.blocked_strings import unblocked
from sluicegate.grammar.json.few_values import FewValue, few_values
from sluicegate.grammar.json.members import member_terms, surely_has_value
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.planner import ObjectPlanner
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.lexemes.digits import NumberDigits
from sluicegate.grammar.lexemes.scalars import number_lexemes, string_lexemes
from sluicegate.grammar.lexemes.string_supply import has_strings
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.guards import Guard, ValidatorGuard, all_of
from sluicegate.grammar.schema.checks import Checks
from sluicegate.grammar.schema.containers import Array, Conjunction, Fact, NoneOf, Object, SchemaRef
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.numbers import Numbers, NumberSet
from sluicegate.grammar.schema.semantics import Circular, Semantics
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.schema.value_set import ValueSet
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

_OF_PLAN, _OF_QUESTION, _OF_CHECK, _OF_TAKEN = 60, 25, 4, 30
"""Work charged for a plan, for deciding whether a value exists, for a fact that is checked, and for a value that is
taken out of others."""
_NEW_VALUES = 500
"""Maximum cached value sets with exclusions, of which each item makes one."""
_UNKNOWN: Any = object()
_WORDS: dict[Any, Any] = {"True": True, "False": False, "None": None}
_DEEP = 30
"""Depth of nested values that are planned while deciding whether a value exists; deeper ones, as in schemas of hundreds
of settings each of which may contain all others, are planned when a text reaches them."""
_Part = TypeVar("_Part", Strings, Numbers)
_Spec = TypeVar("_Spec", Object, Array)
_Plan = TypeVar("_Plan", ObjectPlan, ArrayPlan)


class Plans:
    """The plans of one compiled grammar. Mutable: its caches depend on the schema alone, so that two OS threads that
    compute the same entry do no harm."""

    def __init__(self, document: SchemaDocument | None, options: GrammarOptions) -> None:
        self.options = options
        self.blocklist = options.blocked
        self._digits = NumberDigits(options.integer_digits, options.fraction_digits)
        self.semantics = Semantics(options.limits)
        self.checks = Checks(document) if document is not None else None
        self._objects: dict[Object, ObjectPlan | None] = {}
        self._arrays: dict[Array, ArrayPlan | None] = {}
        self._counting: dict[ArrayPlan, Counting] = {}
        self._taken: dict[ArrayPlan, tuple[list[Any], frozenset[Fact]]] = {}
        """The last values taken out, and what excludes them: often the next ones are these and one more."""
        self._exclusions: dict[Conjunction, ArrayPlan | None] = {}
        self._few: dict[Conjunction, tuple[FewValue, ...] | None] = {}
        self._roomy: dict[int, tuple[tuple[Conjunction, ...], int]] = {}
        self._choices: dict[ArrayPlan, Choices] = {}
        self._satisfiable: dict[Conjunction, bool] = {}
        self._asking: set[Conjunction] = set()
        self._assumed = False
        self._object_planner = ObjectPlanner(self)
        self._unique_items = UniqueItems(self, self._digits)
        self._unblocked_sets: dict[Conjunction, ValueSet] = {}
        self._without_given: dict[Conjunction, ValueSet] = {}
        self._has_new: dict[Conjunction, bool] = {}

    # --- value sets ---

    def pointer(self, terms: Conjunction) -> str:
        """Return the pointer to the first schema among `terms`, for messages."""
        return next((fact.node.pointer for fact in terms if isinstance(fact, SchemaRef)), "")

    def value_set(self, terms: Conjunction) -> ValueSet:
        look()
        given = terms[-1] if terms else None
        if isinstance(given, NoneOf):
            return self._new_values(terms, given)
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

    def _new_values(self, terms: Conjunction, given: NoneOf) -> ValueSet:
        """Return the value set of `terms`, whose last one, `given`, excludes values."""
        known = self._without_given.get(terms)
        if known is None:
            if len(self._without_given) >= _NEW_VALUES:
                self._without_given.clear()
            every = self.value_set(terms[:-1])
            known = self._without_given[terms] = replace(
                every,
                strings=_new(every.strings, given.texts),
                numbers=_new(every.numbers, given.numbers),
            )
        return known

    def _unblocked_set(self, terms: Conjunction, found: ValueSet) -> ValueSet:
        """Return `found`, the value set of `terms`, without blocked strings."""
        known = self._unblocked_sets.get(terms)
        if known is None:
            assert self.blocklist is not None
            left = unblocked(self.blocklist, found.strings)
            # If nothing is blocked, the same object: lexemes are cached by identity and shared by values of one set.
            known = found if left is found.strings else replace(found, strings=left)
            self._unblocked_sets[terms] = known
        return known

    def satisfiable(self, terms: Conjunction) -> bool:
        """Return whether some value satisfies all of `terms`, as far as conjunctions tell.

        A value nested in itself without end does not exist, so a question that is still open counts as unsatisfiable;
        an answer that depends on this is not cached.
        """
        if terms and isinstance(terms[-1], NoneOf):
            return self._has_new_value(terms)
        known = self._satisfiable.get(terms)
        if known is not None:
            return known
        if surely_has_value(terms):
            return True
        if terms in self._asking:
            self.assume()
            return False
        charge(_OF_QUESTION)
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

    def _has_new_value(self, terms: Conjunction) -> bool:
        """Return `satisfiable(terms)` for terms with exclusions, which occur only after planning."""
        known = self._has_new.get(terms)
        if known is None:
            if len(self._has_new) >= _NEW_VALUES:
                self._has_new.clear()
            known = self._has_new[terms] = self._has_value(self.value_set(terms))
        return known

    def _has_value(self, value_set: ValueSet) -> bool:
        if value_set.null or value_set.booleans or has_strings(value_set.strings):
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
        """Return (pointer to the deepest required part that has no value, reason in words if known)."""
        found, asked = ("", ""), set[Conjunction]()
        part: Conjunction | None = terms
        while part is not None and part not in asked:  # a part may require itself without end
            asked.add(part)
            found = self.pointer(part), reason(part)
            part = None if found[1] else self._part_without_value(part)
        return found

    def _part_without_value(self, terms: Conjunction) -> Conjunction | None:
        """Return the terms of a required member for which a schema leaves no value."""
        for spec in self.value_set(terms).objects:
            for name in spec.required:
                below = member_terms(spec, name, ())
                if not self.satisfiable(below) and any(isinstance(fact, SchemaRef) for fact in below):
                    return below
        return None

    # --- plans ---

    def object_plan(self, spec: Object) -> ObjectPlan | None:
        """Return the plan of the objects that satisfy `spec`; None if there are none."""
        found = self._objects.get(spec, _UNKNOWN)
        return self._planned(self._objects, spec, self._object_planner.plan) if found is _UNKNOWN else found

    def array_plan(self, spec: Array) -> ArrayPlan | None:
        """Return the plan of the arrays that satisfy `spec`; None if there are none."""
        found = self._arrays.get(spec, _UNKNOWN)
        return self._planned(self._arrays, spec, self._new_array_plan) if found is _UNKNOWN else found

    def _new_array_plan(self, spec: Array) -> ArrayPlan | None:
        plan = array_planner.plan_of(self, spec)
        if plan is None or plan.listed is not None or not (plan.tight or plan.contains):
            return plan
        items = [*plan.prefix, *(() if plan.rest is None else (plan.rest,))]
        if plan.contains:  # all ways to count an item need their lexemes at its first byte
            items = self.counting(plan).ways(items)
            for terms in items:
                string_lexemes(self.value_set(terms).strings)
                self.number_lexemes(self.value_set(terms).numbers)
        if plan.tight:
            self._unique_items.prepare(items)
        return plan

    def _planned(
        self, known: dict[_Spec, _Plan | None], spec: _Spec, make: Callable[[_Spec], _Plan | None]
    ) -> _Plan | None:
        """Build the plan of `spec` by `make`. It is cached in `known` unless it depends on an unfinished answer."""
        charge(_OF_PLAN)
        assumed, self._assumed = self._assumed, False
        plan = make(spec)
        tentative = self._assumed and bool(self._asking)
        self._assumed = self._assumed or assumed
        if not tentative:
            known[spec] = plan
        return plan

    def assume(self) -> None:
        """Record that the current answer depends on an assumption, so that it is not cached."""
        self._assumed = True

    def without(self, plan: ArrayPlan, facts: frozenset[Fact], item: Any) -> frozenset[Fact]:
        """Return the additional terms of later items of a tight plan after `item`; `facts`: those before `item`."""
        return self._unique_items.without(plan, facts, item)

    def unused(self, terms: Conjunction, facts: frozenset[Fact]) -> Conjunction:
        """Return `terms` with the `facts` that `without` returned."""
        return self._unique_items.terms(terms, facts)

    def exclusions(self, terms: Conjunction) -> ArrayPlan | None:
        """Return a plan of unique values of `terms`, for `without_all`; None where each begins more than were given."""
        if terms not in self._exclusions:
            plan = array_planner.exclusions(self, terms)
            if plan is not None:
                self._unique_items.prepare((terms,))
            if self._asking:
                return plan
            self._exclusions[terms] = plan
        return self._exclusions[terms]

    def without_all(self, plan: ArrayPlan, taken: Iterable[Any]) -> Conjunction:
        """Return the terms of the values of `plan` without `taken`, in `canonical` form."""
        values = list(taken)
        before, facts = self._taken.get(plan, ([], frozenset()))
        if values[: len(before)] != before:
            before, facts = [], frozenset()
        for value in values[len(before) :]:
            charge(_OF_TAKEN)
            if not isinstance(value, tuple):
                facts = self._unique_items.without(plan, facts, value)
            elif len(value) == 1 and value[0] in _WORDS:
                facts = self._unique_items.without(plan, facts, _WORDS[value[0]])
        self._taken[plan] = values, facts
        assert plan.rest is not None
        return with_facts(plan.rest, facts)

    def few(self, terms: Conjunction) -> tuple[FewValue, ...] | None:
        """Return all values of `terms`; None where they are many."""
        if terms in self._few:
            return self._few[terms]
        found = few_values(self, terms)
        if not self._asking:
            self._few[terms] = found
        return found

    def roomy(self, members: tuple[Conjunction, ...]) -> int:
        """Return the bit set of those of `members` that have many values."""
        found = self._roomy.get(id(members))
        if found is None:
            bits = sum(1 << k for k, terms in enumerate(members) if self.few(terms) is None)
            found = self._roomy[id(members)] = members, bits
        return found[1]

    def counting(self, plan: ArrayPlan) -> Counting:
        found = self._counting.get(plan)
        if found is None:
            found = self._counting[plan] = Counting(plan, self.satisfiable)
        return found

    def choices(self, plan: ArrayPlan) -> Choices:
        found = self._choices.get(plan)
        if found is None:
            found = self._choices[plan] = Choices(plan)
        return found

    def refuses(self, value: Any, facts: frozenset[Fact]) -> bool:
        """Return whether a check of `facts` surely refuses `value`."""
        charge(_OF_CHECK * len(facts))
        return self.checks is not None and any(self.checks.validator(f)(value) != f.positive for f in facts)

    def check(self, facts: frozenset[Fact]) -> Guard | None:
        if not facts:
            return None
        assert self.checks is not None
        charge(_OF_CHECK * len(facts))
        return all_of(*(ValidatorGuard(self.checks.validator(fact), fact.positive) for fact in sorted(facts, key=repr)))


def _new(parts: tuple[_Part, ...], given: GivenTexts) -> tuple[_Part, ...]:
    return tuple([replace(part, given=given) for part in parts]) if given.size else parts
