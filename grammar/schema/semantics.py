"""Work out the set of values that a conjunction of subschemas allows, keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.limits import GrammarLimits
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.assertions import array_of, exact, numbers_of, object_of, required, strings_of
from sluicegate.grammar.schema.constants import constant_set, json_text
from sluicegate.grammar.schema.containers import (
    EVERY_ARRAY,
    EVERY_OBJECT,
    Conjunction,
    Constant,
    Fact,
    Object,
    SchemaRef,
    conjunction,
    implied,
    negated,
)
from sluicegate.grammar.schema.document import ANNOTATIONS, REFERENCES, Subschema
from sluicegate.grammar.schema.lint import compile_pattern
from sluicegate.grammar.schema.numbers import Numbers
from sluicegate.grammar.schema.one_of import OneOf
from sluicegate.grammar.schema.strings import Strings, StringSet
from sluicegate.grammar.schema.unevaluated import without_unevaluated
from sluicegate.grammar.schema.value_set import EVERYTHING, NOTHING, ValueSet, few_scalars, only
from sluicegate.plugins.errors import GrammarError, InvalidGrammar

_TYPES: dict[str, ValueSet] = {
    "null": only(null=True),
    "boolean": only(booleans=frozenset({True, False})),
    "number": only(numbers=numbers.EVERY),
    "integer": only(numbers=(Numbers(step=Fraction(1)),)),
    "string": only(strings=strings.EVERY),
    "array": only(arrays=(EVERY_ARRAY,)),
    "object": only(objects=(EVERY_OBJECT,)),
}
_PLAIN_INTEGER = only(numbers=(Numbers(step=Fraction(1), plain=True),))
_TYPED = ANNOTATIONS | {"type"}
"""A schema of these keywords only restricts the type."""
_Asked = tuple[Fact, bool, tuple[str, ...]]
_SUBSETS = 5
_DEPENDENT = 16
"""Most alternatives of an object made for dependencies; beyond that, existential constraints express them."""
_RUN = 8
"""Parts without alternatives that are put together one by one."""
_OF_FACT, _COMPARED_A_CHARGE = 1, 10
"""Work charged for a fact that others may deny, and facts it is compared with per unit charged."""


class Circular(Exception):
    """Raised where a schema refers to itself without a value in between."""


class Semantics(OneOf):
    """Value sets of facts, each worked out once. One per compiled grammar."""

    def __init__(self, limits: GrammarLimits) -> None:
        super().__init__(limits.alternatives)
        self.limits = limits
        self._domains: dict[_Asked, ValueSet] = {}
        self._met: dict[Conjunction, ValueSet] = {}
        self._open: set[_Asked] = set()

    def of_conjunction(self, facts: Conjunction) -> ValueSet:
        """Return the values that satisfy all of `facts`."""
        if len(facts) == 1:
            return self.of(facts[0])
        known = self._met.get(facts)
        if known is None:
            known = self._met[facts] = self._conjoined(facts)
        return known

    def _conjoined(self, facts: Conjunction) -> ValueSet:
        """Return the values that satisfy all of `facts`, taken one by one until no value is left."""
        known, done = EVERYTHING, 0
        for size in range(len(facts) - 1, 1, -1):  # alternatives add facts to what was met before
            before = self._met.get(facts[:size])
            if before is not None:
                known, done = before, size
                break
        if known is NOTHING or _contradict(facts, done):
            return NOTHING
        for fact in facts[done:]:
            known = self.narrow(known, self.of(fact), fact)
            if known == NOTHING:
                return NOTHING
        return known

    def of(self, fact: Fact, thorough: bool = False, given: tuple[str, ...] = ()) -> ValueSet:
        """Return the values that satisfy `fact`. Raises `Circular`.

        `thorough`: keep alternatives apart by the branches that hold, for an `unevaluated*` keyword outside. `given`:
        properties that the caller requires of every object anyway; objects without them may be left out or not.
        """
        if isinstance(fact, Constant):
            return self._of_literal(fact)
        assert isinstance(fact, SchemaRef)
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

    def _of_literal(self, fact: Constant) -> ValueSet:
        value_set = constant_set(fact.json)
        return value_set if fact.positive else self.complement(value_set, Constant(fact.json))

    def _outside_of(self, fact: SchemaRef) -> ValueSet:
        inside = SchemaRef(fact.node)
        return self.complement(self.of(inside), inside)

    def match(self, pattern: str) -> StringSet:
        return (Strings(dfa=self.pattern(pattern, "/patternProperties")),)

    def hopeless_member(self, spec: Object, name: str) -> bool:
        try:
            return is_empty(self.of_conjunction(member(spec, name)))
        except (Circular, GrammarError):
            return False

    def member_values(self, spec: Object, name: str) -> frozenset[object] | None:
        try:
            value_set = self.of_conjunction(member(spec, name))
        except (Circular, GrammarError):
            return None
        few = few_scalars(value_set)
        if few is None:
            return None
        named: list[object] = [("named", value) for value in (*value_set.booleans, *([None] if value_set.null else []))]
        return frozenset([*few[0], *few[1], *named])

    # --- one schema ---------------------------------------------------------------------------------------------

    def _of_node(self, node: Subschema, thorough: bool, given: tuple[str, ...]) -> ValueSet:
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
            return self.of(SchemaRef(node.document.resolve(node, "$ref")), thorough)
        thorough = thorough or "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        value_set = self._own(node)
        for part in self._grouped(self._applicators(node, thorough, given), SchemaRef(node)):
            value_set = self.narrow(value_set, part, SchemaRef(node))
        for part, condition in self._dependent(node, thorough):
            if condition is None or len(value_set.objects) * len(part.objects) <= _DEPENDENT:
                value_set = self.narrow(value_set, part, SchemaRef(node), _DEPENDENT)
            else:
                value_set = self.narrow(value_set, replace(EVERYTHING, objects=(condition,)), SchemaRef(node))
        if thorough:
            value_set = without_unevaluated(node, value_set)
        return value_set

    def _own(self, node: Subschema) -> ValueSet:
        """Return what the keywords that look at the value itself allow."""
        schema = node.value
        value_set = self._typed(node)
        if value_set is EVERYTHING:
            value_set = ValueSet(
                numbers=numbers_of(node),
                strings=strings_of(node, self.limits),
                arrays=(array_of(node),),
                objects=(self._object(node),),
            )
        else:  # keywords of other types say nothing; a pattern has to be one all the same
            texts = value_set.strings != strings.NOTHING or "pattern" in schema
            value_set = ValueSet(
                value_set.null,
                value_set.booleans,
                numbers.intersect(value_set.numbers, numbers_of(node)) if value_set.numbers else numbers.NOTHING,
                strings.intersect(value_set.strings, strings_of(node, self.limits)) if texts else strings.NOTHING,
                (array_of(node),) if value_set.arrays else (),
                (self._object(node),) if value_set.objects else (),
            )
        if "const" in schema:
            value_set = self.intersect(value_set, self.of(Constant(json_text(schema["const"]))), node.pointer)
        if "enum" in schema:
            value_set = self.intersect(value_set, self._enum(node), node.pointer)
        return value_set

    def _typed(self, node: Subschema) -> ValueSet:
        names = node.value.get("type")
        if names is None:
            return EVERYTHING
        names = [names] if isinstance(names, str) else names
        value_set = NOTHING
        for name in names:
            value_set = self.union(value_set, _PLAIN_INTEGER if name == "integer" and node.draft <= 4 else _TYPES[name])
        return value_set

    def _enum(self, node: Subschema) -> ValueSet:
        value_set = NOTHING
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
        value_set = only(
            strings=(Strings(words=frozenset(words)),),
            numbers=(Numbers(values=frozenset(values)),) if values else numbers.NOTHING,
        )
        for text in others:
            value_set = self.union(value_set, constant_set(text))
        return value_set

    def _object(self, node: Subschema) -> Object:
        names = strings.EVERY
        if "propertyNames" in node.value:
            names = self.of(SchemaRef(node.child("propertyNames"))).strings
        return object_of(node, names)

    def pattern(self, text: str, pointer: str) -> CharDfa:
        return compile_pattern(text, self.limits, pointer)

    def _grouped(self, parts: Iterable[ValueSet], origin: Fact) -> Iterator[ValueSet]:
        """Yield `parts`, those of many that make no alternatives put together by twos: one by one, each would copy all
        before it."""
        run: list[ValueSet] = []
        for part in parts:
            if _is_single(part):
                run.append(part)
            else:
                yield from run
                run = []
                yield part
        while len(run) > _RUN:
            pairs = zip(run[::2], run[1::2], strict=False)
            run = [self.narrow(a, b, origin) for a, b in pairs] + run[len(run) & ~1 :]
        yield from run

    # --- schemas inside schemas, for the same value ----------------------------------------------------------------

    def _applicators(self, node: Subschema, thorough: bool, given: tuple[str, ...]) -> Iterable[ValueSet]:
        schema = node.value
        for keyword in REFERENCES:
            if keyword in schema:
                yield self.of(SchemaRef(node.document.resolve(node, keyword)), thorough)
        if "allOf" in schema or "oneOf" in schema:
            given = tuple(dict.fromkeys(given + required(schema)))
        for i, part in enumerate(schema.get("allOf", ())):
            exclusive = isinstance(part, dict) and "oneOf" in part
            yield self.of(SchemaRef(node.child("allOf", i)), thorough, given if exclusive else ())
        if "anyOf" in schema:
            yield self._any_of(node, thorough)
        if "oneOf" in schema:
            branches = [self.of(SchemaRef(node.child("oneOf", i)), thorough) for i in range(len(schema["oneOf"]))]
            yield self.exactly_one(branches, node, thorough, given)
        if "not" in schema:
            yield self.of(SchemaRef(node.child("not"), False))
        if "if" in schema:
            yield self._conditional(node, thorough)

    def _any_of(self, node: Subschema, thorough: bool) -> ValueSet:
        branches = [self.of(SchemaRef(node.child("anyOf", i)), thorough) for i in range(len(node.value["anyOf"]))]
        result = self.union_all(branches, thorough)
        if thorough and len(branches) <= _SUBSETS:
            for chosen in range(1, 1 << len(branches)):
                if chosen & (chosen - 1):
                    met = EVERYTHING
                    for i, branch in enumerate(branches):
                        if chosen >> i & 1:
                            met = self.narrow(met, branch, SchemaRef(node.child("anyOf", i)))
                    result = self.union(result, met, thorough)
        return result

    def _conditional(self, node: Subschema, thorough: bool) -> ValueSet:
        schema = node.value
        condition = node.child("if")
        if "then" not in schema and "else" not in schema and not thorough:
            return EVERYTHING
        holds = self.of(SchemaRef(condition), thorough)
        fails = self.of(SchemaRef(condition, False))
        if "then" in schema:
            then = SchemaRef(node.child("then"))
            holds = self.narrow(holds, self.of(then, thorough), then)
        if "else" in schema:
            other = SchemaRef(node.child("else"))
            fails = self.narrow(fails, self.of(other, thorough), other)
        return self.union(holds, fails, thorough)

    def _dependent(self, node: Subschema, thorough: bool) -> Iterable[tuple[ValueSet, Object | None]]:
        """Yield each dependency as alternatives, and as one conjunction where that is possible and `thorough` is not
        set."""
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, wanted in node.value.get(keyword, {}).items():
                if isinstance(wanted, str):
                    wanted = [wanted]
                if isinstance(wanted, list):
                    inner: tuple[Object, ...] = (Object(required=tuple(dict.fromkeys(wanted))),)
                    met: tuple[Object, ...] = (Object(required=tuple(dict.fromkeys([name, *wanted]))),)
                else:
                    inner = self.of(SchemaRef(node.child(keyword, name)), thorough).objects
                    met = self._products((Object(required=(name,)),), inner, Object.meet, EVERY_OBJECT, node.pointer)
                whole = len(inner) == 1 and (not thorough or not inner[0].parts)
                condition = implied(name, inner[0], SchemaRef(node)) if whole else None
                yield replace(EVERYTHING, objects=(Object(absent=frozenset({name})), *met)), condition


def _is_single(value_set: ValueSet) -> bool:
    """Return whether there is one kind of each type, and no automaton of strings."""
    texts = value_set.strings
    return (
        len(value_set.objects) <= 1
        and len(value_set.arrays) <= 1
        and len(value_set.numbers) <= 1
        and len(texts) <= 1
        and all(text.dfa is None for text in texts)
    )


def _contradict(facts: Conjunction, done: int) -> bool:
    """Return whether one fact denies another, also through a reference or for a copy; of the first `done` none does. Of
    arrays and nested objects only a check of the whole value would find that out, too late."""
    sides: tuple[list[Fact], list[Fact]] = ([], [])
    for fact in facts:
        sides[fact.positive].append(fact)
    if not sides[False]:
        return False
    targets = [[fact.node.target() for fact in side if isinstance(fact, SchemaRef)] for side in sides]
    return any(_is_denied(fact, sides[not fact.positive], targets[not fact.positive]) for fact in facts[done:])


def _is_denied(fact: Fact, others: list[Fact], targets: list[Subschema]) -> bool:
    """Return whether one of `others`, which lead to `targets`, says the opposite of `fact`."""
    charge(_OF_FACT + len(others) / _COMPARED_A_CHARGE)
    if negated(fact) in others:
        return True
    if not isinstance(fact, SchemaRef):
        return False
    own = fact.node.target()
    return any(own.value == other.value and own.equals(other) for other in targets)


def member(spec: Object, name: str) -> Conjunction:
    """Return the conjunction that the value of property `name` must satisfy; patterns, which only narrow it, are
    ignored."""
    facts: list[Fact] = []
    for part in spec.parts_about(name):
        if name in part.by_name:
            facts.extend(part.by_name[name])
        elif not part.patterns and part.rest is not None:
            facts.extend(part.rest)
    return conjunction(facts)


def is_empty(value_set: ValueSet) -> bool:
    """Return whether the set obviously has no value."""
    return not (
        value_set.null
        or value_set.booleans
        or value_set.numbers
        or value_set.arrays
        or value_set.objects
        or not strings.is_empty(value_set.strings)
    )
