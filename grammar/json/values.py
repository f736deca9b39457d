"""Turn conjunctions of facts into readings of values, and compute their lookahead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.classification.openings import of_scalar
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.arrays.duplicates import state_of
from sluicegate.grammar.json.arrays.novelty import may_lack_items
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.arrays.state import ArrayState, Used
from sluicegate.grammar.json.layout import Layout, Then
from sluicegate.grammar.json.novelty import new_value
from sluicegate.grammar.json.objects.novelty import may_lack_values
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.state import ObjectState
from sluicegate.grammar.json.plans import Plans
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme
from sluicegate.grammar.lexemes.open_ended import open_ended
from sluicegate.grammar.lexemes.scalars import string_lexemes, word_lexeme
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.continuations import Continuation, ContinuationUnion
from sluicegate.grammar.reading.guards import TEXT_NEEDED, DistinctKey, Guard
from sluicegate.grammar.reading.lookahead import Lookahead, after_byte, joined
from sluicegate.grammar.reading.reading import Reading, Run, of_readings
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.reading.value_start import Hole, ValueStart
from sluicegate.grammar.schema.containers import Conjunction, Constant, conjunction, negated
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.value_set import ValueSet, is_unspecific
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_State = TypeVar("_State", ObjectState, ArrayState, ValueStart, ContinuationUnion)
_OF_VALUE, _OF_PLACE, _OF_KIND = 8, 3, 3
"""Work charged for the readings of a value, for an object or array that has come to a new place, and for each kind of
objects or arrays but the first that may be opened."""
_STATES = 20_000
"""Maximum states interned; beyond, the table is cleared, which costs only speed."""
_OF_LOOKAHEAD = 1_000
"""Bytes that are counted for a lookahead, whose sets have some thousand places."""
_Scalars = tuple[tuple[Lexeme, ...], tuple[Lexeme, ...], Lexeme | None]
_HOLE = Hole()
_NESTED = 8
"""Depth of nested values up to which the lookahead is computed for all nodes; deeper, for the current node only."""


class Values(Plans):
    """The values of one compiled grammar, shared by its matchers. Its caches grow lazily and depend on the schema
    alone."""

    def __init__(self, document: SchemaDocument | None, options: GrammarOptions) -> None:
        super().__init__(document, options)
        self.layout = Layout(options)
        self._terms: dict[Conjunction, Conjunction] = {}
        self._states: dict[Any, Any] = {}
        self._lookaheads: dict[int, tuple[Conjunction, Lookahead]] = {}
        self._looking: set[int] = set()
        self._lacking: dict[Conjunction, bool] = {}
        self._lacking_asked: set[Conjunction] = set()
        self._lexemes: dict[int, tuple[ValueSet, _Scalars]] = {}
        self._scalar_lookaheads: dict[int, Lookahead] = {}

    # --- readings ---

    def value(self, terms: Conjunction, follow: Continuation) -> tuple[Reading, ...]:
        """Return the readings at the first byte of a value that satisfies all of `terms`."""
        charge(_OF_VALUE)
        value_set = self.value_set(terms)
        lexemes, numbers, words = self._scalars(value_set)
        return self._readings(value_set, lexemes, numbers if words is None else (*numbers, words), follow)

    def within_text(self, terms: Conjunction, follow: Continuation) -> tuple[Reading, ...]:
        """Return the readings of a value inside other text, where `follow` may begin with characters that could also
        continue a number."""
        value_set = self.value_set(terms)
        lexemes, numbers, words = self._scalars(value_set)
        bare = numbers if words is None else (*numbers, words)
        return self._readings(value_set, lexemes, tuple(map(open_ended, bare)), follow)

    def _readings(
        self, value_set: ValueSet, lexemes: tuple[Lexeme, ...], bare: tuple[Lexeme, ...], follow: Continuation
    ) -> tuple[Reading, ...]:
        """Join the readings of all kinds of values. `lexemes`: of strings, after the quote. `bare`: of numbers and of
        `null`, `true`, `false`."""
        moves: dict[int, Any] = {}
        if lexemes:
            moves[QUOTE] = lambda: tuple(InLexeme(lexeme, lexeme.start, follow) for lexeme in lexemes)
        objects = [found for spec in value_set.objects if (found := self.object_plan(spec)) is not None]
        if objects:
            moves[0x7B] = lambda: _opened(self.object_state(plan, 0, 0, follow) for plan in objects)
        arrays = [ready for spec in value_set.arrays if (ready := self.array_plan(spec)) is not None]
        guards: dict[int, Guard] | None = None
        if arrays:
            states = (self.array_state(plan, 0, (0,) * len(plan.contains), 0, follow) for plan in arrays)
            moves[0x5B] = lambda: _opened(states)
            if new_value(follow) is not None and any(map(may_lack_items, arrays)):
                moves[0x5B], guards = ArrayOpening(tuple(states)), {0x5B: TEXT_NEEDED}
        readings: list[Reading] = [ByteChoice(moves, guards)] if moves else []
        readings.extend([InLexeme(lexeme, lexeme.start, follow) for lexeme in bare])
        return tuple(readings)

    def _scalars(self, value_set: ValueSet) -> _Scalars:
        """Return the lexemes of the strings, of the numbers, and of `null`, `true` and `false` in `value_set`."""
        known = self._lexemes.get(id(value_set))
        if known is None:
            if len(self._lexemes) >= _STATES:
                self._lexemes, self._scalar_lookaheads = {}, {}
            names = word_lexeme(value_set.null, value_set.booleans)
            found = string_lexemes(value_set.strings), self.number_lexemes(value_set.numbers), names
            known = self._lexemes[id(value_set)] = (
                value_set,
                found,
            )  # as long as `value_set` is kept, nothing else has its id
        return known[1]

    def renewed(self) -> Values:
        """Clear all caches of states; states in use live on with their matchers."""
        self._terms, self._states, self._lookaheads, self._unblocked_sets = {}, {}, {}, {}
        self._lexemes, self._scalar_lookaheads = {}, {}
        self.layout = Layout(self.options)
        return self

    def start(self, terms: Conjunction, follow: Continuation) -> ValueStart:
        """Return the interned start of a value for these arguments."""
        terms = self._terms.setdefault(terms, terms)
        key = (id(terms), follow)
        found: ValueStart | None = self._states.get(key)
        if found is None:
            found = self._keep(key, ValueStart(self, terms, follow))
        return found

    def asks_items(self, terms: Conjunction, follow: Continuation) -> bool:
        return new_value(follow) is not None and self._parts_lack(terms)

    def may_lack(self, terms: Conjunction) -> bool:
        return self.few(terms) is not None or self.exclusions(terms) is not None or self._parts_lack(terms)

    def _parts_lack(self, terms: Conjunction) -> bool:
        """Return whether objects or arrays among `terms` that must be new may come to where little is left to write."""
        found = self._lacking.get(terms)
        if found is None:
            if terms in self._lacking_asked:
                return True  # of what holds itself: unknown, and right for all that is asked
            self._lacking_asked.add(terms)
            try:
                found = self._find_lacking(self.value_set(terms))
            finally:
                self._lacking_asked.discard(terms)
            if len(self._lacking) >= _STATES:
                self._lacking.clear()
            self._lacking[terms] = found
        return found

    def _find_lacking(self, value_set: ValueSet) -> bool:
        for spec in value_set.objects:
            plan = self.object_plan(spec)
            if plan is not None:
                ample = sum(1 << k for k, terms in enumerate(plan.values) if not self.may_lack(terms))
                if may_lack_values(plan, self.roomy(plan.values), ample):
                    return True
        arrays = (self.array_plan(spec) for spec in value_set.arrays)
        return any(plan is not None and may_lack_items(plan) for plan in arrays)

    def without_taken(self, terms: Conjunction, taken: Collection[Any]) -> Conjunction:
        few = self.few(terms)
        if few is not None:
            excluded = (negated(Constant(value.text)) for value in few if value.key in taken)
            return conjunction(chain(terms, excluded))
        plan = self.exclusions(terms)
        return terms if plan is None else self.without_all(plan, taken)

    def value_lookahead(self, terms: Conjunction, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """Return the lookahead at the start of a value, with its continuation left open."""
        known, key = self._lookaheads, id(terms)
        found = known.get(key)
        if found is not None:
            return found[1]
        if key in self._looking or len(self._looking) > _NESTED:
            return self._value_lookahead(terms, at, vocabulary)
        self._looking.add(key)
        try:
            lookahead = self._shared_lookahead(terms, vocabulary)
        finally:
            self._looking.discard(key)
        if len(known) >= _STATES:
            known.clear()
        known[key] = terms, lookahead  # keeping `terms` alive keeps its id unique
        return lookahead

    def _shared_lookahead(self, terms: Conjunction, vocabulary: Vocabulary) -> Lookahead:
        """Return the lookahead of a value, shared by all grammars of the vocabulary where no schema says what objects
        and arrays hold: nearly every schema asks for it behind names that it does not list, and few texts go there."""
        value_set, root = self.value_set(terms), vocabulary.punctuation.root
        if not is_unspecific(value_set):
            return self._value_lookahead(terms, root, vocabulary)
        name = (value_set, self.options)
        found: Lookahead | None = vocabulary.lookaheads.get(name)
        if found is None:
            found = self._value_lookahead(terms, root, vocabulary)
            if all(type(guard) is DistinctKey for guards, *_ in found.doubtful for guard in guards):
                vocabulary.lookaheads.put(name, found, _OF_LOOKAHEAD)
        return found

    def _value_lookahead(self, terms: Conjunction, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        value_set, punctuation = self.value_set(terms), vocabulary.punctuation
        found = self._scalar_lookaheads.get(id(value_set))
        if found is None:
            found = self._scalar_lookaheads[id(value_set)] = _of_scalars(self._scalars(value_set), punctuation)
        if not value_set.objects and not value_set.arrays:
            return found
        parts = [found]
        for byte, opened in ((0x7B, self._objects_lookahead), (0x5B, self._arrays_lookahead)):
            first, below = punctuation.root.below(byte), at.below(byte)
            if first is not None and below is not None:
                parts += [after_byte(first, found) for found in opened(value_set, below, vocabulary)]
        return parts[0] if len(parts) == 1 else joined(parts)

    def _objects_lookahead(
        self, value_set: ValueSet, at: PunctuationNode, vocabulary: Vocabulary
    ) -> Iterator[Lookahead]:
        for spec in value_set.objects:
            plan = self.object_plan(spec)
            if plan is not None:
                state = self.object_state(plan, 0, 0, _HOLE)
                yield state.opened_lookahead(at, vocabulary) or of_readings(state.opened(), at, vocabulary)

    def _arrays_lookahead(
        self, value_set: ValueSet, at: PunctuationNode, vocabulary: Vocabulary
    ) -> Iterator[Lookahead]:
        for spec in value_set.arrays:
            plan = self.array_plan(spec)
            if plan is not None:
                state = self.array_state(plan, 0, (0,) * len(plan.contains), 0, _HOLE)
                yield state.opened_lookahead(at, vocabulary) or of_readings(state.opened(), at, vocabulary)

    def numbers(self, terms: Conjunction) -> tuple[Lexeme, ...]:
        """Return the lexemes of the numbers that satisfy `terms`."""
        return self._scalars(self.value_set(terms))[1]

    def many(self, branches: tuple[Continuation, ...]) -> ContinuationUnion:
        key = frozenset(branches)
        found: ContinuationUnion | None = self._states.get(key)
        if found is None:
            found = self._keep(key, ContinuationUnion(branches))
        return found

    def object_state(
        self,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> ObjectState:
        key = (plan, at, count, follow, met, used)
        found: ObjectState | None = self._states.get(key)
        if found is None:
            found = self._keep(key, ObjectState(self, plan, at, count, follow, met, used))
        return found

    def array_state(
        self, plan: ArrayPlan, index: int, hits: tuple[int, ...], used: Used, follow: Continuation
    ) -> ArrayState:
        key = (plan, index, hits, used, follow)
        found: ArrayState | None = self._states.get(key)
        if found is None:
            found = self._keep(key, state_of(plan)(self, plan, index, hits, used, follow))
        return found

    def _keep(self, key: Any, state: _State) -> _State:
        charge(_OF_PLACE)
        if len(self._states) >= _STATES:
            self._states = {}
        self._states[key] = state
        return state


def _opened(states: Iterable[ObjectState | ArrayState]) -> tuple[Reading, ...]:
    groups: list[tuple[Reading, ...]] = []
    for state in states:
        if groups:
            charge(_OF_KIND)
        groups.append(state.opened())
    return tuple([reading for group in groups for reading in group])


class ArrayOpening(Then):
    """The continuation after a bracket that opens an array which must be new."""

    __slots__ = ("_states",)

    def __init__(self, states: tuple[ArrayState, ...]) -> None:
        super().__init__(lambda: _opened(states))
        self._states = states

    @property
    def by_text(self) -> bool:
        return True

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        run.reads_text()
        tape = run.tape
        assert tape is not None
        return tuple([reading for state in self._states for reading in state.opened_in(tape)])


def _of_scalars(lexemes: _Scalars, punctuation: PunctuationTrie) -> Lookahead:
    strings, numbers, words = lexemes
    read, ends = HERE, 0
    for lexeme in (*strings, *numbers) if words is None else (*strings, *numbers, words):
        inside, over = of_scalar(lexeme, punctuation)
        read |= inside
        ends |= over
    return Lookahead(read, ends)
