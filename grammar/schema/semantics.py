"""From subschemas to the sets of values they allow, one keyword after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.options import GrammarLimits
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.assertions import array_of, exact, numbers_of, object_of, required, strings_of
from sluicegate.grammar.schema.constants import json_text, literal_domain
from sluicegate.grammar.schema.containers import (
    Array,
    Conj,
    Fact,
    Literal,
    Object,
    Term,
    conj,
    implied,
    negated,
)
from sluicegate.grammar.schema.document import ANNOTATIONS, REFERENCES, Node
from sluicegate.grammar.schema.lint import compile_pattern
from sluicegate.grammar.schema.numbers import Numbers
from sluicegate.grammar.schema.one_of import Exclusive
from sluicegate.grammar.schema.strings import Strings, StringSet
from sluicegate.grammar.schema.unevaluated import without_unevaluated
from sluicegate.grammar.schema.value_set import EVERYTHING, NOTHING, Domain, few_scalars, only
from sluicegate.plugins.errors import GrammarError, InvalidGrammar

_TYPES: dict[str, Domain] = {
    "null": only(null=True),
    "boolean": only(booleans=frozenset({True, False})),
    "number": only(numbers=numbers.EVERY),
    "integer": only(numbers=(Numbers(step=Fraction(1)),)),
    "string": only(strings=strings.EVERY),
    "array": only(arrays=(Array(),)),
    "object": only(objects=(Object(),)),
}
_PLAIN_INTEGER = only(numbers=(Numbers(step=Fraction(1), plain=True),))
_TYPED = ANNOTATIONS | {"type"}
"""A schema of these says no more than its type."""
_Asked = tuple[Fact, bool, tuple[str, ...]]
_SUBSETS = 5
_DEPENDENT = 16
"""Every dependency doubles the readings of an object; beyond this, demands say what depends."""


class Circular(Exception):
    """A schema refers to itself without a value in between."""


class Meaning(Exclusive):
    """Domains of facts, each worked out once. One per compiled grammar."""

    def __init__(self, limits: GrammarLimits) -> None:
        super().__init__(limits.alternatives)
        self.limits = limits
        self._domains: dict[_Asked, Domain] = {}
        self._met: dict[Conj, Domain] = {}
        self._open: set[_Asked] = set()

    def of_conj(self, facts: Conj) -> Domain:
        """Values that satisfy all of `facts`."""
        if len(facts) == 1:
            return self.of(facts[0])
        known = self._met.get(facts)
        if known is None:
            if _contradict(facts):
                self._met[facts] = NOTHING
                return NOTHING
            known, done = EVERYTHING, 0
            for size in range(len(facts) - 1, 1, -1):  # alternatives add facts to what was met before
                if facts[:size] in self._met:
                    known, done = self._met[facts[:size]], size
                    break
            for fact in facts[done:]:
                known = self.narrow(known, self.of(fact), fact)
            self._met[facts] = known
        return known

    def of(self, fact: Fact, thorough: bool = False, given: tuple[str, ...] = ()) -> Domain:
        """`thorough`: keep apart which branches hold, for an `unevaluated*` keyword outside. `given`: properties that
        the caller requires of every object anyway; of objects without them, the answer says nothing.

        Raises `Circular` where a schema means itself.
        """
        if isinstance(fact, Literal):
            return self._of_literal(fact)
        key = (fact, thorough, given)
        known = self._domains.get(key)
        if known is None:
            if key in self._open:
                raise Circular
            self._open.add(key)
            try:
                known = self._of_node(fact.node, thorough, given) if fact.positive else self._outside_of(fact)
            finally:
                self._open.discard(key)
            self._domains[key] = known
        return known

    def _of_literal(self, fact: Literal) -> Domain:
        domain = literal_domain(fact.json)
        return domain if fact.positive else self.complement(domain, Literal(fact.json))

    def _outside_of(self, fact: Term) -> Domain:
        inside = Term(fact.node)
        return self.complement(self.of(inside), inside)

    def match(self, pattern: str) -> StringSet:
        return (Strings(dfa=self.pattern(pattern, "/patternProperties")),)

    def hopeless_member(self, spec: Object, name: str) -> bool:
        try:
            return is_empty(self.of_conj(member(spec, name)))
        except (Circular, GrammarError):
            return False

    def member_values(self, spec: Object, name: str) -> frozenset[object] | None:
        try:
            domain = self.of_conj(member(spec, name))
        except (Circular, GrammarError):
            return None
        few = few_scalars(domain)
        if few is None:
            return None
        named: list[object] = [("named", value) for value in (*domain.booleans, *([None] if domain.null else []))]
        return frozenset([*few[0], *few[1], *named])

    # --- one schema ---------------------------------------------------------------------------------------------

    def _of_node(self, node: Node, thorough: bool, given: tuple[str, ...]) -> Domain:
        schema = node.value
        if schema is True or schema == {}:
            return EVERYTHING
        if schema is False:
            return NOTHING
        if not isinstance(schema, dict):
            raise InvalidGrammar(f"a schema must be an object or a boolean, not {schema!r}", pointer=node.pointer)
        if schema.keys() <= _TYPED:
            return self._typed(node)
        if "$ref" in schema and node.draft <= 7:
            return self.of(Term(node.document.resolve(node, "$ref")), thorough)
        thorough = thorough or "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        domain = self._own(node)
        for part in self._applicators(node, thorough, given):
            domain = self.narrow(domain, part, Term(node))
        for part, condition in self._dependent(node, thorough):
            if condition is None or len(domain.objects) * len(part.objects) <= _DEPENDENT:
                domain = self.narrow(domain, part, Term(node), _DEPENDENT)
            else:
                domain = self.narrow(domain, replace(EVERYTHING, objects=(condition,)), Term(node))
        if thorough:
            domain = without_unevaluated(node, domain)
        return domain

    def _own(self, node: Node) -> Domain:
        """Keywords that look at the value itself."""
        schema = node.value
        domain = self._typed(node)
        if domain is EVERYTHING:
            domain = Domain(
                numbers=numbers_of(node),
                strings=strings_of(node, self.limits),
                arrays=(array_of(node),),
                objects=(self._object(node),),
            )
        else:  # keywords of other types say nothing; a pattern has to be one all the same
            texts = domain.strings != strings.NOTHING or "pattern" in schema
            domain = Domain(
                domain.null,
                domain.booleans,
                numbers.intersect(domain.numbers, numbers_of(node)) if domain.numbers else numbers.NOTHING,
                strings.intersect(domain.strings, strings_of(node, self.limits)) if texts else strings.NOTHING,
                (array_of(node),) if domain.arrays else (),
                (self._object(node),) if domain.objects else (),
            )
        if "const" in schema:
            domain = self.intersect(domain, self.of(Literal(json_text(schema["const"]))), node.pointer)
        if "enum" in schema:
            domain = self.intersect(domain, self._enum(node), node.pointer)
        return domain

    def _typed(self, node: Node) -> Domain:
        names = node.value.get("type")
        if names is None:
            return EVERYTHING
        names = [names] if isinstance(names, str) else names
        domain = NOTHING
        for name in names:
            domain = self.union(domain, _PLAIN_INTEGER if name == "integer" and node.draft <= 4 else _TYPES[name])
        return domain

    def _enum(self, node: Node) -> Domain:
        domain = NOTHING
        words: list[str] = []
        values: list[Fraction] = []
        others: list[str] = []
        for value in node.value["enum"]:
            if isinstance(value, str):
                words.append(value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                values.append(exact(value))
            else:
                others.append(json_text(value))
        domain = only(
            strings=(Strings(words=frozenset(words)),),
            numbers=(Numbers(values=frozenset(values)),) if values else numbers.NOTHING,
        )
        for text in others:
            domain = self.union(domain, literal_domain(text))
        return domain

    def _object(self, node: Node) -> Object:
        names = strings.EVERY
        if "propertyNames" in node.value:
            names = self.of(Term(node.child("propertyNames"))).strings
        return object_of(node, names)

    def pattern(self, text: str, pointer: str) -> CharDfa:
        return compile_pattern(text, self.limits, pointer)

    # --- schemas inside schemas, for the same value ----------------------------------------------------------------

    def _applicators(self, node: Node, thorough: bool, given: tuple[str, ...]) -> Iterable[Domain]:
        schema = node.value
        for keyword in REFERENCES:
            if keyword in schema:
                yield self.of(Term(node.document.resolve(node, keyword)), thorough)
        if "allOf" in schema or "oneOf" in schema:
            given = tuple(dict.fromkeys(given + required(schema)))
        for i, part in enumerate(schema.get("allOf", ())):
            exclusive = isinstance(part, dict) and "oneOf" in part
            yield self.of(Term(node.child("allOf", i)), thorough, given if exclusive else ())
        if "anyOf" in schema:
            yield self._any_of(node, thorough)
        if "oneOf" in schema:
            branches = [self.of(Term(node.child("oneOf", i)), thorough) for i in range(len(schema["oneOf"]))]
            yield self.exactly_one(branches, node, thorough, given)
        if "not" in schema:
            yield self.of(Term(node.child("not"), False))
        if "if" in schema:
            yield self._conditional(node, thorough)

    def _any_of(self, node: Node, thorough: bool) -> Domain:
        branches = [self.of(Term(node.child("anyOf", i)), thorough) for i in range(len(node.value["anyOf"]))]
        result = self.union_all(branches, thorough)
        if thorough and len(branches) <= _SUBSETS:
            for chosen in range(1, 1 << len(branches)):
                if chosen & (chosen - 1):
                    met = EVERYTHING
                    for i, branch in enumerate(branches):
                        if chosen >> i & 1:
                            met = self.narrow(met, branch, Term(node.child("anyOf", i)))
                    result = self.union(result, met, thorough)
        return result

    def _conditional(self, node: Node, thorough: bool) -> Domain:
        schema = node.value
        condition = node.child("if")
        if "then" not in schema and "else" not in schema and not thorough:
            return EVERYTHING
        holds = self.of(Term(condition), thorough)
        fails = self.of(Term(condition, False))
        if "then" in schema:
            then = Term(node.child("then"))
            holds = self.narrow(holds, self.of(then, thorough), then)
        if "else" in schema:
            other = Term(node.child("else"))
            fails = self.narrow(fails, self.of(other, thorough), other)
        return self.union(holds, fails, thorough)

    def _dependent(self, node: Node, thorough: bool) -> Iterable[tuple[Domain, Object | None]]:
        """Each as alternatives, and, where that can be said and nothing is to be evaluated, as one conjunction."""
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, wanted in node.value.get(keyword, {}).items():
                if isinstance(wanted, str):
                    wanted = [wanted]
                if isinstance(wanted, list):
                    inner: tuple[Object, ...] = (Object(required=tuple(dict.fromkeys(wanted))),)
                    met: tuple[Object, ...] = (Object(required=tuple(dict.fromkeys([name, *wanted]))),)
                else:
                    inner = self.of(Term(node.child(keyword, name)), thorough).objects
                    met = self._products((Object(required=(name,)),), inner, Object.meet, Object(), node.pointer)
                whole = len(inner) == 1 and (not thorough or not inner[0].parts)
                condition = implied(name, inner[0], Term(node)) if whole else None
                yield replace(EVERYTHING, objects=(Object(absent=frozenset({name})), *met)), condition


def _contradict(facts: Conj) -> bool:
    """What one says another denies, perhaps through a reference, or of a copy. Told here, since of arrays and of nested
    objects only a check of the whole value would tell it, too late."""
    denied = [fact for fact in facts if not fact.positive]
    if not denied:
        return False
    said = [fact.node.target() for fact in facts if isinstance(fact, Term) and fact.positive]
    return any(negated(fact) in facts for fact in denied) or any(
        isinstance(fact, Term) and any(map(fact.node.target().equals, said)) for fact in denied
    )


def member(spec: Object, name: str) -> Conj:
    """What the value of property `name` must satisfy, patterns left out (they only narrow it further)."""
    facts: list[Fact] = []
    for part in spec.parts:
        if name in part.by_name:
            facts.extend(part.by_name[name])
        elif not part.patterns and part.rest is not None:
            facts.extend(part.rest)
    return conj(facts)


def is_empty(domain: Domain) -> bool:
    """No value at all, as far as a glance tells."""
    return not (
        domain.null
        or domain.booleans
        or domain.numbers
        or domain.arrays
        or domain.objects
        or not strings.is_empty(domain.strings)
    )
