"""From conjunctions of facts to plans: objects and arrays made ready, and what can have no value left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from grammar.arrays import ArrayPlan, Counting
from grammar.automata.budget import look
from grammar.blocked.sets import unblocked
from grammar.demands import Claims, TooMany, claims_of, names_of, skipped
from grammar.gather import Guard
from grammar.guards import Checked, all_of
from grammar.leaves import number_lexemes, spellings, string_lexemes
from grammar.lexemes import Lexeme
from grammar.members import member_terms, surely_has_value
from grammar.object_plans import ObjectPlan, ordered_names
from grammar.options import GrammarOptions
from grammar.schema import numbers, strings
from grammar.schema.checks import Checks
from grammar.schema.constants import json_text
from grammar.schema.containers import Array, Conj, Fact, Literal, Object, Term
from grammar.schema.document import Document
from grammar.schema.domain import Domain
from grammar.schema.meaning import Circular, Meaning, is_empty
from grammar.schema.numbers import Numbers
from grammar.schema.strings import Strings, StringSet
from plugins.errors import GrammarLimit, InvalidGrammar

_UNKNOWN: Any = object()
_Spec = TypeVar("_Spec", Object, Array)
_Plan = TypeVar("_Plan", ObjectPlan, ArrayPlan)
_PATTERNS = 6
_FEW_MEMBERS = 64
_CLAIMING = 3
"""Objects within objects whose demands are counted while asking whether there is a value at all."""
_DEMANDS = 64
"""Demands on one object; where there are more, checks stand in for all."""
_CLAIMED = 500
"""Ways to meet demands that are asked for in one schema; for what is beyond, a check stands in."""


class Plans:
    """Of one compiled grammar. Grows by what depends on the schema alone; making the same thing twice at once is
    harmless."""

    def __init__(self, document: Document | None, options: GrammarOptions) -> None:
        self.options = options
        self.blocklist = options.blocked
        self.meaning = Meaning(options.limits)
        self.checks = Checks(document) if document is not None else None
        self._objects: dict[Object, ObjectPlan | None] = {}
        self._arrays: dict[Array, ArrayPlan | None] = {}
        self._counting: dict[ArrayPlan, Counting] = {}
        self._satisfiable: dict[Conj, bool] = {}
        self._asking: set[Conj] = set()
        self._assumed = False
        self._claiming = self._claimed = 0
        self._unblocked_domains: dict[Conj, Domain] = {}

    # --- meaning ---

    def place(self, terms: Conj) -> str:
        """Pointer to the first schema among `terms`, for messages."""
        return next((fact.node.pointer for fact in terms if isinstance(fact, Term)), "")

    def domain(self, terms: Conj) -> Domain:
        look()
        try:
            found = self.meaning.of_conj(terms)
            kinds, most = max(len(found.objects), len(found.arrays)), self.options.limits.threads
            if kinds > most:
                raise GrammarLimit(
                    f"a value has {kinds} kinds of objects or of arrays (anyOf, oneOf), of which at most {most} are "
                    "followed at the same time: split the schema, or raise limits.threads",
                    pointer=self.place(terms),
                )
            return found if self.blocklist is None else self._unblocked_domain(terms, found)
        except Circular:
            raise InvalidGrammar(
                "this schema refers to itself without a value in between", pointer=self.place(terms)
            ) from None

    def _unblocked_domain(self, terms: Conj, found: Domain) -> Domain:
        """`found`, the domain of `terms`, without blocked strings."""
        known = self._unblocked_domains.get(terms)
        if known is None:
            assert self.blocklist is not None
            left = unblocked(self.blocklist, found.strings)
            # The same object where nothing is blocked: lexemes are found by it, and shared by values of one domain.
            known = found if left is found.strings else replace(found, strings=left)
            self._unblocked_domains[terms] = known
        return known

    def satisfiable(self, terms: Conj) -> bool:
        """Some value satisfies all of `terms`, as far as conjunctions tell.

        A value nested in itself without end is none, so what is still being asked counts as unsatisfiable; an answer
        that rests on this is not remembered.
        """
        known = self._satisfiable.get(terms)
        if known is not None:
            return known
        if surely_has_value(terms):
            return True
        if terms in self._asking:
            self._assumed = True
            return False
        outer, self._assumed = self._assumed, False
        self._asking.add(terms)
        try:
            answer = self._has_value(self.domain(terms))
        finally:
            self._asking.discard(terms)
        if answer or not self._assumed or not self._asking:
            self._satisfiable[terms] = answer
        self._assumed = self._assumed or outer
        return answer

    def _has_value(self, domain: Domain) -> bool:
        if domain.null or domain.booleans or not strings.is_empty(domain.strings):
            return True
        if number_lexemes(domain.numbers):
            return True
        return any(self.array_plan(spec) is not None for spec in domain.arrays) or any(
            self.object_plan(spec) is not None for spec in domain.objects
        )

    def why_not(self, terms: Conj) -> str:
        """Pointer to a required part that has no value, as deep as it can be followed."""
        pointer = self.place(terms)
        try:
            for spec in self.domain(terms).objects:
                for name in spec.required:
                    below = member_terms(spec, name, ())
                    if not self.satisfiable(below) and any(isinstance(fact, Term) for fact in below):
                        return self.why_not(below)
        except RecursionError:
            pass
        return pointer

    # --- objects ---

    def object_plan(self, spec: Object) -> ObjectPlan | None:
        """None where no object satisfies `spec`."""
        return self._planned(self._objects, spec, self._object_plan)

    def _planned(
        self, known: dict[_Spec, _Plan | None], spec: _Spec, make: Callable[[_Spec], _Plan | None]
    ) -> _Plan | None:
        """The plan of `spec`, made once; not kept where it leaves out what is still being asked."""
        if (found := known.get(spec, _UNKNOWN)) is not _UNKNOWN:
            return found  # type: ignore[no-any-return]
        assumed, self._assumed = self._assumed, False
        plan = make(spec)
        tentative = self._assumed and bool(self._asking)
        self._assumed = self._assumed or assumed
        if not tentative:
            known[spec] = plan
        return plan

    def _object_plan(self, spec: Object) -> ObjectPlan | None:
        if spec.contradicts():
            return None
        try:
            return self._counted_plan(spec)
        except TooMany as error:
            dropped = error.demands
        some = tuple(demand for demand in spec.some if demand not in dropped)
        checks = spec.checks | {demand.origin for demand in dropped}
        return self._object_plan(replace(spec, some=some, checks=checks))

    def _counted_plan(self, spec: Object) -> ObjectPlan | None:
        """Raises `TooMany` where its demands cannot be counted."""
        if len(spec.some) > _DEMANDS:
            raise TooMany(spec.some)
        named = {name: None for part in spec.parts for name, _ in part.named}
        demanded = names_of(spec.some)
        listed = tuple(dict.fromkeys([*named, *spec.required, *demanded]))
        required = frozenset(spec.required)
        patterns = tuple(dict.fromkeys(text for part in spec.parts for text, _ in part.patterns))
        if len(patterns) > 40:
            raise GrammarLimit(f"{len(patterns)} patterns over property names in one object; at most 40 are followed")
        matchers = {text: self.meaning.pattern(text, "/patternProperties") for text in patterns}
        lists = sum(1 for part in spec.parts if part.named) + (len(listed) > len(named))
        unordered = lists > 1 or any(name not in named and name not in required for name in demanded)
        names: list[str] = []
        values: list[Conj] = []
        for name in ordered_names(listed, required, self.options.property_order):
            matched = [text for text in patterns if _matches(matchers[text], name)]
            terms = member_terms(spec, name, [*matched, *(e for e, _ in spec.every if strings.contains(e, name))])
            allowed = name not in spec.absent and strings.contains(spec.names, name)
            allowed = allowed and not (self.blocklist is not None and self.blocklist.holds(name))
            if allowed and self.satisfiable(terms):
                names.append(name)
                values.append(terms)
            elif name in required:
                return None
        given = frozenset(names)
        spec = replace(spec, some=tuple(some for some in spec.some if some.absent <= given)) if demanded else spec
        free: list[tuple[Lexeme, Conj]] = []
        free_names: list[Strings] = []
        free_claims: list[Claims] = []
        refused = frozenset(listed) | spec.absent
        for language, terms in self._classes(spec, patterns, refused):
            if strings.is_empty(language) or not self.satisfiable(terms):
                continue
            if self.blocklist is not None:
                language = unblocked(self.blocklist, language)
            few = strings.finite_words(language)
            if few is None:
                claims = self._claims(spec, terms, partial(_overlap, language, refused))
                for part in language:
                    for lexeme in string_lexemes((part,)):
                        free.append((lexeme, terms))
                        free_names.append(part)
                        free_claims.append(claims)
            else:
                more = sorted(few - refused)
                if self.blocklist is not None:
                    more = [name for name in more if not self.blocklist.holds(name)]
                names.extend(more)
                values.extend([terms] * len(more))
        supply = strings.supply(free_names, refused, spec.low)
        if supply is not None and spec.low > len(names) + supply:
            return None
        named_claims: list[Claims] = []
        if spec.some:
            named_claims = [self._claims(spec, t, partial(_has, name)) for name, t in zip(names, values, strict=True)]
        plan = ObjectPlan(
            tuple(names),
            tuple(values),
            tuple(name in required for name in names),
            tuple(free),
            refused,
            spec.low,
            spec.high,
            self.options.property_order == "any" or (unordered and self.options.property_order == "schema"),
            self._check(spec.checks),
            len(spec.some),
            tuple(named_claims),
            tuple(free_claims) if spec.some else (),
            tuple(skipped(spec, name, name in required) for name in names) if spec.some else (),
            tuple(free_names),
            supply,
        )
        try:
            return None if spec.some and not plan.ends.reachable(0, 0, 0) else plan
        except GrammarLimit:
            look()
            raise TooMany(spec.some[len(spec.some) // 2 :]) from None

    def _claims(self, spec: Object, terms: Conj, named: Callable[[StringSet], bool]) -> Claims:
        """Raises `TooMany` also where that leads too deep into claims of other objects."""
        if not spec.some:
            return ()
        if self._claiming >= _CLAIMING or self._claimed >= _CLAIMED:
            self._assumed = True
            raise TooMany(spec.some)
        self._claiming += 1
        try:
            return claims_of(spec, terms, named, self._claimable, self._never, self.options.limits.alternatives)
        finally:
            self._claiming -= 1

    def _claimable(self, terms: Conj) -> bool:
        self._claimed += 1
        return self.satisfiable(terms)

    def _never(self, terms: Conj) -> bool:
        """No value satisfies `terms`, as far as a glance tells."""
        try:
            return is_empty(self.domain(terms))
        except InvalidGrammar:
            return False

    def _classes(
        self, spec: Object, patterns: tuple[str, ...], refused: frozenset[str]
    ) -> list[tuple[StringSet, Conj]]:
        """Names that are not listed, by which patterns they match; the class of a `refused` one does not matter."""
        classes: list[tuple[StringSet, tuple[str | StringSet, ...]]] = [(spec.names, ())]
        for text in patterns:
            match: StringSet = (Strings(dfa=self.meaning.pattern(text, "/patternProperties")),)
            other = strings.complement(match)
            split = []
            for language, matched in classes:
                for side, texts in ((match, (*matched, text)), (other, matched)):
                    cut = strings.intersect(language, side)
                    if not strings.is_empty(cut):
                        split.append((cut, texts))
            if len(split) > 2**_PATTERNS:
                raise GrammarLimit(f"patternProperties overlap in more than {2**_PATTERNS} ways")
            classes = split
        asked = dict.fromkeys(language for some in spec.some for language, _ in some.ways)
        asked.update(dict.fromkeys(language for language, _ in spec.every))
        every = {language for language, _ in spec.every}
        for given in asked:
            language = strings.beyond(given, refused)
            inside: tuple[str | StringSet, ...] = (given,) if given in every else ()
            if strings.is_empty(language) or (language == strings.EVERY and not inside):
                continue  # no free name is told from another by it
            other = strings.complement(language)
            cuts = [
                (strings.intersect(names, side), (*texts, *added))
                for names, texts in classes
                for side, added in ((language, inside), (other, ()))
            ]
            classes = [(names, texts) for names, texts in cuts if not strings.is_empty(names)]
            if len(classes) > 2**_PATTERNS and spec.some:
                raise TooMany(spec.some)
            if len(classes) > 2**_PATTERNS:
                raise GrammarLimit(f"sets of property names overlap in more than {2**_PATTERNS} ways")
        return [(language, member_terms(spec, None, matched)) for language, matched in classes]

    # --- arrays ---

    def array_plan(self, spec: Array) -> ArrayPlan | None:
        """None where no array satisfies `spec`."""
        return self._planned(self._arrays, spec, self._array_plan)

    def _array_plan(self, spec: Array) -> ArrayPlan | None:
        prefix = []
        rest: Conj | None = spec.at(spec.prefix_size)
        high = spec.high
        for i in range(spec.prefix_size):
            if (high is not None and i >= high) or not self.satisfiable(spec.at(i)):
                high = i
                break
            prefix.append(spec.at(i))
        assert rest is not None
        if (high is not None and high <= len(prefix)) or not self.satisfiable(rest):
            rest = None
            high = len(prefix) if high is None else min(high, len(prefix))
        low = max([spec.low, *(wanted.start + wanted.low for wanted in spec.contains if wanted.low)])
        if high is not None and low > high:
            return None
        members = self._members(spec, rest) if spec.unique and not prefix and rest is not None else None
        if members is not None:
            high = len(members) if high is None else min(high, len(members))
            if low > high:
                return None
        items = [*prefix, *([] if rest is None else [rest])]
        told = spec.unique and not spec.contains and members is None
        fixed = told and not all(map(self._can_grow, items))
        plan = ArrayPlan(
            tuple(prefix),
            rest,
            spec.low,
            high,
            spec.unique,
            spec.contains,
            self._check(spec.checks),
            members,
            fixed or (told and any(map(self._is_tight, items))),
            fixed,
        )
        if plan.contains and not Counting(plan, self.satisfiable).can_end(0, (0,) * len(plan.contains)):
            return None
        return plan

    def _is_tight(self, terms: Conj) -> bool:
        """Some number or word, once begun again, may be unable to become another one."""
        domain = self.domain(terms)
        return domain.null or bool(domain.booleans) or any(part != Numbers() for part in domain.numbers)

    def _can_grow(self, terms: Conj) -> bool:
        return all(map(strings.can_grow, self.domain(terms).strings))

    def excluded(self, plan: ArrayPlan, item: Any) -> Literal | None:
        """`item` as what later items of a tight plan must not be; None where they can always become another one."""
        if isinstance(item, list | dict):
            return None
        if isinstance(item, str) and not plan.fixed:
            return None
        return Literal(json_text(item))

    def counting(self, plan: ArrayPlan) -> Counting:
        found = self._counting.get(plan)
        if found is None:
            found = self._counting[plan] = Counting(plan, self.satisfiable)
        return found

    def _members(self, spec: Array, rest: Conj) -> tuple[tuple[bool, str], ...] | None:
        """All values an item can have, where they are few scalars."""
        domain = self.domain(rest)
        if spec.contains or domain.objects or domain.arrays:
            return None
        words, values = strings.finite_words(domain.strings), numbers.finite_values(domain.numbers)
        if words is None or values is None or len(words) + len(values) > _FEW_MEMBERS:
            return None
        members = [(True, word) for word in sorted(words)]
        members += [(False, "|".join(text.decode() for text in spellings(value))) for value in sorted(values)]
        members += [(False, "true" if value else "false") for value in sorted(domain.booleans)]
        return tuple(members + ([(False, "null")] if domain.null else []))

    def _check(self, facts: frozenset[Fact]) -> Guard | None:
        if not facts:
            return None
        assert self.checks is not None
        return all_of(*(Checked(self.checks.validator(fact), fact.positive) for fact in sorted(facts, key=repr)))


def _overlap(names: StringSet, refused: frozenset[str], language: StringSet) -> bool:
    return not strings.is_empty(strings.intersect(names, strings.beyond(language, refused)))


def _has(name: str, language: StringSet) -> bool:
    return strings.contains(language, name)


def _matches(dfa: Any, name: str) -> bool:
    return strings.contains((Strings(dfa=dfa),), name)
