"""Plan objects from conjunctions of facts: their names, the kinds of free names, and the terms of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.json.blocked_strings import unblocked
from sluicegate.grammar.json.existentials import Claims, TooMany, claims_of, names_of, skipped
from sluicegate.grammar.json.members import member_terms
from sluicegate.grammar.json.objects.plan import ObjectPlan, ordered_names
from sluicegate.grammar.json.plan_source import PlanSource
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.lexemes.joint import joint_lexeme
from sluicegate.grammar.lexemes.scalars import string_lexemes
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction, Existential, Object, Way
from sluicegate.grammar.schema.semantics import is_empty
from sluicegate.grammar.schema.strings import Strings, StringSet
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

_APART = 2
"""Kinds of free names up to which each has a lexeme of its own."""
_PATTERNS = 40
_CLASSES = 2**6
_CLAIMING = 3
"""Depth of nested objects whose existential constraints are tracked while deciding whether a value exists."""
_DEMANDS = 64
"""Maximum existential constraints tracked for one object; with more, checks of the whole object replace all."""
_CLAIMED = 500
"""Maximum ways to meet constraints that are computed for one schema; beyond, checks replace them."""

_OF_NAME, _OF_OVERLAP, _PARTS_A_CHARGE = 2, 10, 5
"""Work charged for a listed name and for an intersection of sets of names, and schemas that a name is looked up in per
unit charged."""

_Classes = list[tuple[StringSet, tuple[str | StringSet, ...]]]
"""Classes of names, each with the patterns and the sets of `every` that its names match."""


class _Kind(NamedTuple):
    """A kind of free names: names whose values satisfy the same terms."""

    terms: Conjunction
    names: Strings
    claims: Claims


class ObjectPlanner:
    """Plans the objects of one compiled grammar. Mutable."""

    def __init__(self, plans: PlanSource) -> None:
        self.plans = plans
        self._claiming = self._claimed = 0

    def plan(self, spec: Object) -> ObjectPlan | None:
        """Return the plan of the objects that satisfy `spec`; None if there are none."""
        if spec.contradicts():
            return None
        try:
            return self._counted(spec)
        except TooMany as error:
            dropped = frozenset(error.demands)
        some = tuple(demand for demand in spec.existentials if demand not in dropped)
        checks = spec.checks | {demand.origin for demand in dropped}
        return self.plan(replace(spec, existentials=some, checks=checks))

    def exists(self, spec: Object) -> bool | None:
        """Return whether some object satisfies `spec`, without making a plan. None if its required properties do not
        decide it."""
        if spec.contradicts():
            return False
        if spec.existentials or spec.low > len(spec.required):
            return None
        return self._given(spec, spec.required, _patterns(spec)) is not None

    def _counted(self, spec: Object) -> ObjectPlan | None:
        """Make the plan with all existential constraints tracked; None if no object satisfies `spec`. Raises `TooMany`
        if they cannot be tracked."""
        if len(spec.existentials) > _DEMANDS:
            raise TooMany(spec.existentials)
        listed, unordered = _listed(spec)
        patterns = _patterns(spec)
        if len(patterns) > _PATTERNS:
            raise GrammarLimit(
                f"{len(patterns)} patterns over property names in one object; at most {_PATTERNS} are followed: "
                "join patterns whose values satisfy the same"
            )
        given = self._given(spec, listed, patterns)
        if given is None:
            return None
        if names_of(spec.existentials):
            there = frozenset(given)
            spec = replace(spec, existentials=tuple(some for some in spec.existentials if some.absent <= there))
        refused = frozenset(listed) | spec.absent
        kinds, few = self._free(spec, patterns, refused)
        given |= few
        free_names = tuple(kind.names for kind in kinds)
        supply = strings.supply(free_names, refused, spec.low)
        if supply is not None and spec.low > len(given) + supply:
            return None
        plan = self._put_together(spec, given, kinds, refused, supply, unordered)
        try:
            return None if spec.existentials and not plan.ends.reachable(0, 0, 0) else plan
        except GrammarLimit:
            look()
            raise TooMany(spec.existentials[len(spec.existentials) // 2 :]) from None

    def _put_together(
        self,
        spec: Object,
        given: dict[str, Conjunction],
        kinds: list[_Kind],
        refused: frozenset[str],
        supply: int | None,
        unordered: bool,
    ) -> ObjectPlan:
        order, required = self.plans.options.property_order, frozenset(spec.required)
        claims: tuple[Claims, ...] = ()
        if spec.existentials:
            claims = tuple([self._claims(spec, terms, partial(_ways_about, name)) for name, terms in given.items()])
        return ObjectPlan(
            names=tuple(given),
            values=tuple(given.values()),
            required=tuple(name in required for name in given),
            free=tuple(kind.terms for kind in kinds),
            refused=refused,
            low=spec.low,
            high=spec.high,
            any_order=order == "any" or (unordered and order == "schema"),
            check=self.plans.check(spec.checks),
            some=len(spec.existentials),
            claims=claims,
            free_claims=tuple(kind.claims for kind in kinds) if spec.existentials else (),
            skips=tuple(skipped(spec, name, name in required) for name in given) if spec.existentials else (),
            free_names=tuple(kind.names for kind in kinds),
            free_lexemes=_lexemes([kind.names for kind in kinds], bool(spec.existentials)),
            supply=supply,
        )

    # --- names that are listed ---

    def _given(self, spec: Object, listed: tuple[str, ...], patterns: tuple[str, ...]) -> dict[str, Conjunction] | None:
        """Return the terms of the value of each of `listed` that can have one, in order. None: a required name cannot
        have a value."""
        plans, required = self.plans, frozenset(spec.required)
        matchers = {text: plans.semantics.pattern(text, "/patternProperties") for text in patterns}
        found: dict[str, Conjunction] = {}
        charge(len(listed) * (_OF_NAME + len(spec.parts) / _PARTS_A_CHARGE + len(patterns)))
        for name in ordered_names(listed, required, plans.options.property_order):
            matched = [text for text in patterns if _matches(matchers[text], name)]
            terms = member_terms(spec, name, [*matched, *spec.every_about(name)])
            allowed = name not in spec.absent and strings.contains(spec.names, name)
            allowed = allowed and not (plans.blocklist is not None and plans.blocklist.holds(name))
            if allowed and plans.satisfiable(terms):
                found[name] = terms
            elif name in required:
                return None
        return found

    # --- names that are not ---

    def _free(
        self, spec: Object, patterns: tuple[str, ...], refused: frozenset[str]
    ) -> tuple[list[_Kind], dict[str, Conjunction]]:
        """Return the kinds of free names, and the names of finite sets, which are treated as listed."""
        plans = self.plans
        kinds: list[_Kind] = []
        few: dict[str, Conjunction] = {}
        for language, terms in self._classes(spec, patterns, refused):
            if strings.is_empty(language) or not plans.satisfiable(terms):
                continue
            if plans.blocklist is not None:
                language = unblocked(plans.blocklist, language)
            words = strings.finite_words(language)
            if words is None:
                claims = self._claims(spec, terms, partial(_ways_among, language, refused))
                kinds += [_Kind(terms, part.reduced, claims) for part in language if not part.is_empty()]
                continue
            for name in sorted(words - refused):
                if plans.blocklist is None or not plans.blocklist.holds(name):
                    few[name] = terms
        return kinds, few

    def _classes(
        self, spec: Object, patterns: tuple[str, ...], refused: frozenset[str]
    ) -> list[tuple[StringSet, Conjunction]]:
        """Divide the names that are not listed into classes by the patterns that they match. The class of a `refused`
        name does not matter."""
        classes: _Classes = [(spec.names, ())]
        for text in patterns:
            match: StringSet = (Strings(dfa=self.plans.semantics.pattern(text, "/patternProperties")),)
            classes = _split(classes, match, text)
            if len(classes) > _CLASSES:
                raise GrammarLimit(
                    f"patternProperties overlap in more than {_CLASSES} ways; make patterns that exclude one another"
                )
        asked = dict.fromkeys(language for some in spec.existentials for language, _ in some.ways)
        asked.update(dict.fromkeys(language for language, _ in spec.every))
        every = {language for language, _ in spec.every}
        for given in asked:
            language = strings.beyond(given, refused)
            inside = given if given in every else None
            if strings.is_empty(language) or (language == strings.EVERY and inside is None):
                continue  # it does not distinguish free names
            classes = _split(classes, language, inside)
            if len(classes) > _CLASSES and spec.existentials:
                raise TooMany(spec.existentials)
            if len(classes) > _CLASSES:
                raise GrammarLimit(
                    f"sets of property names overlap in more than {_CLASSES} ways; ask for fewer of them at once"
                )
        return [(language, member_terms(spec, None, matched)) for language, matched in classes]

    # --- existential constraints ---

    def _claims(self, spec: Object, terms: Conjunction, ways: Callable[[Existential], list[Way]]) -> Claims:
        """Return the ways in which a property can meet the existential constraints of `spec`. Raises `TooMany` also if
        that nests too deeply in other objects' constraints."""
        if not spec.existentials:
            return ()
        if self._claiming >= _CLAIMING or self._claimed >= _CLAIMED:
            self.plans.assume()
            raise TooMany(spec.existentials)
        self._claiming += 1
        try:
            most = self.plans.options.limits.alternatives
            return claims_of(spec, terms, ways, self._claimable, self._never, most)
        finally:
            self._claiming -= 1

    def _claimable(self, terms: Conjunction) -> bool:
        self._claimed += 1
        return self.plans.satisfiable(terms)

    def _never(self, terms: Conjunction) -> bool:
        """Return whether `terms` have an empty value set. False means unknown."""
        try:
            return is_empty(self.plans.value_set(terms))
        except InvalidGrammar:
            return False


def _lexemes(kinds: list[Strings], demanded: bool) -> tuple[tuple[tuple[int, ...], Lexeme], ...]:
    """Return the lexemes of names of `kinds`: one for all if there are several, but one for each if there are
    existential constraints (`demanded`) or length bounds."""
    counted = any(part.low or part.high is not None for part in kinds)
    if len(kinds) > _APART and not demanded and not counted:
        together = joint_lexeme(tuple([part.automaton() for part in kinds]))
        if together is not None:
            return ((tuple(range(len(kinds))), together),)
    return tuple(((k,), lexeme) for k, part in enumerate(kinds) for lexeme in string_lexemes((part,)))


def _patterns(spec: Object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in spec.parts for text, _ in part.patterns))


def _listed(spec: Object) -> tuple[tuple[str, ...], bool]:
    """Return the names that a schema lists, and whether they come from several lists, so that no order is the
    author's."""
    named = {name: None for part in spec.parts for name, _ in part.named}
    demanded = names_of(spec.existentials)
    listed = tuple(dict.fromkeys([*named, *spec.required, *demanded]))
    lists = sum(1 for part in spec.parts if part.named) + (len(listed) > len(named))
    return listed, lists > 1 or any(name not in named and name not in spec.required for name in demanded)


def _split(classes: _Classes, language: StringSet, text: str | StringSet | None) -> _Classes:
    """Split each class by whether names are in `language`; those that are get `text`, if given, added to what they
    match."""
    other = strings.complement(language)
    inside = () if text is None else (text,)
    cuts = [
        (strings.intersect(names, side), (*texts, *added))
        for names, texts in classes
        for side, added in ((language, inside), (other, ()))
    ]
    return [(names, texts) for names, texts in cuts if not strings.is_empty(names)]


def _ways_about(name: str, some: Existential) -> list[Way]:
    return some.ways_about(name)


def _ways_among(names: StringSet, refused: frozenset[str], some: Existential) -> list[Way]:
    """Return those of the ways to meet `some` that a name of `names` can take that is not `refused`."""
    charge(len(some.ways))
    return [way for way in some.ways if _overlap(names, strings.beyond(way[0], refused))]


def _overlap(names: StringSet, others: StringSet) -> bool:
    if others is strings.NOTHING:
        return False
    charge(_OF_OVERLAP)
    return not strings.is_empty(strings.intersect(names, others))


def _matches(dfa: Any, name: str) -> bool:
    return strings.contains((Strings(dfa=dfa),), name)
