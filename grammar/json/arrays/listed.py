"""Arrays of unique items that have few values each: what was not given is offered value by value.

So nothing is asked of the text, and a value is begun only where enough are left behind it, also where `contains` counts
some of them and where the first items have values of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.arrays.plan import ArrayPlan, Hits, Listed
from sluicegate.grammar.json.arrays.state import ArrayState
from sluicegate.grammar.json.container import closed_guard
from sluicegate.grammar.json.few_values import FewValue, ObjectPlans, few_values
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import literals
from sluicegate.grammar.lexemes.scalars import spellings
from sluicegate.grammar.lexemes.words import Words
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.schema.containers import Conjunction, Contains, conjunction
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_OF_STEP, _OF_ITEM, _OFFERED_A_CHARGE = 2, 15, 6
"""Charged for a way to go on that is looked at, and for an item that is chosen for a completion; and values per unit
charged where those of the next item are listed."""
_MOST_WAYS = 20_000
"""Situations looked at for a way to the end; an array that has more is taken to have one."""
_Situation = tuple[int, Hits, tuple[int, ...]]
"""Items so far, counts, and how many values of each class are left."""


def listed(
    plans: ObjectPlans, prefix: Sequence[Conjunction], rest: Conjunction | None, contains: Sequence[Contains]
) -> Listed | None:
    """Return the values of the items; None where they are too many."""
    indexes: dict[object, int] = {}
    values: list[FewValue] = []
    places = []
    for terms in (*prefix, rest):
        few = () if terms is None else few_values(plans, terms)
        if few is None:
            return None
        place = 0
        for value in few:
            index = indexes.setdefault(value.key, len(values))
            if index == len(values):
                values.append(value)
            elif values[index].text != value.text:
                values[index] = values[index]._replace(other=value.text)
            place |= 1 << index
        places.append(place)
    counted = tuple(_counted(plans, values, wanted) for wanted in contains)
    return Listed(tuple(values), tuple(places[:-1]), places[-1], counted)


def _counted(plans: ObjectPlans, values: list[FewValue], wanted: Contains) -> int:
    """Return the bit set of the values that count for `wanted`."""
    found, fact = 0, frozenset((wanted.term,))
    for index, value in enumerate(values):
        if plans.satisfiable(conjunction((*value.terms, wanted.term))) and not plans.refuses(value.value, fact):
            found |= 1 << index
    return found


class Choices:
    """Whether an array of such items can still be ended. Remembers its answers.

    Values that the same items can have, and that count for the same `contains`, are one class: only how many of a class
    are left matters.
    """

    def __init__(self, plan: ArrayPlan) -> None:
        assert plan.listed is not None
        self.plan = plan
        self._listed = found = plan.listed
        sets = (*found.places, found.rest, *found.counted)
        classes: dict[tuple[int, ...], int] = {}
        for index in range(len(found.values)):
            key = tuple([each >> index & 1 for each in sets])
            classes[key] = classes.get(key, 0) | 1 << index
        self.classes = list(classes.values())
        self._places = [[k for k, each in enumerate(self.classes) if each & place] for place in found.places]
        self._rest = [k for k, each in enumerate(self.classes) if each & found.rest]
        self._hits = [tuple([bool(each & counted) for counted in found.counted]) for each in self.classes]
        self._known: dict[_Situation, bool] = {}

    def _after(self, index: int, hits: Hits, value: int) -> Hits | None:
        """Return the counts after item `index`, which is `value`; None where they are too many."""
        return self._added(index, hits, [each >> value & 1 for each in self._listed.counted])

    def _added(self, index: int, hits: Hits, counted: Sequence[int]) -> Hits | None:
        after = []
        for wanted, before, more in zip(self.plan.contains, hits, counted, strict=True):
            now = before + (more if index >= wanted.start else 0)
            if wanted.high is not None and now > wanted.high:
                return None
            after.append(now if wanted.high is not None else min(now, wanted.low))
        return tuple(after)

    def offered(self, index: int, hits: Hits, used: int) -> Iterator[tuple[int, Hits]]:
        """Yield the values that may come behind `index` items, which are `used`, as bit sets, and the counts after any
        of each."""
        plan, places = self.plan, self._listed.places
        if plan.high is not None and index >= plan.high:
            return
        place = (places[index] if index < len(places) else self._listed.rest) & ~used
        for each in self.classes:
            one = each & place
            if one:
                after = self._after(index, hits, one.bit_length() - 1)
                if after is not None and self.can_end(index + 1, after, used | one & -one):
                    yield one, after

    def can_end(self, index: int, hits: Hits, used: int) -> bool:
        """Return whether the array can be ended behind `index` items, which are `used`."""
        left = tuple([(each & ~used).bit_count() for each in self.classes])
        if not self.plan.contains and index >= len(self._places):
            high = self.plan.low if self.plan.high is None else self.plan.high
            return min(high, index + sum([left[k] for k in self._rest])) >= self.plan.low
        return self._can_end((index, hits, left))

    def _can_end(self, first: _Situation) -> bool:
        if first not in self._known:
            before: dict[_Situation, _Situation | None] = {first: None}
            stack = [first]
            while stack and len(before) < _MOST_WAYS and not self._is_known_end(stack[-1]):
                here = stack.pop()
                for after in self._steps(*here):
                    if after not in before and self._known.get(after, True):
                        before[after] = here
                        stack.append(after)
            if not stack:
                self._known.update(dict.fromkeys(before, False))
            way = stack[-1] if stack else None
            while way is not None:  # what leads there ends as well
                self._known[way] = True
                way = before[way]
        return self._known[first]

    def _is_known_end(self, here: _Situation) -> bool:
        return self._known.get(here, False) or self.is_end(here[0], here[1])

    def is_end(self, index: int, hits: Hits) -> bool:
        """Return whether the array may end here."""
        return index >= self.plan.low and all(
            hit >= wanted.low for hit, wanted in zip(hits, self.plan.contains, strict=True)
        )

    def _steps(self, index: int, hits: Hits, left: tuple[int, ...]) -> list[_Situation]:
        """Return where the next item may lead, those last that count for what is missing."""
        charge(_OF_STEP)
        plan = self.plan
        if plan.high is not None and index >= plan.high:
            return []
        offered = self._places[index] if index < len(self._places) else self._rest
        found = []
        for k in offered:
            after = self._added(index, hits, self._hits[k]) if left[k] else None
            if after is not None:
                found.append((index + 1, after, (*left[:k], left[k] - 1, *left[k + 1 :])))
        lows = [wanted.low for wanted in plan.contains]
        return sorted(found, key=lambda each: -sum(max(low - hit, 0) for low, hit in zip(lows, each[1], strict=True)))


class ListedState(ArrayState):
    """`used`: bit set over the values of `plan.listed`. `index` is not cut off."""

    __slots__ = ("_offered",)

    def may_go_on(self) -> bool:
        return bool(self.offered())

    def parts_read(self, at: PunctuationNode, vocabulary: Vocabulary) -> int | None:
        return None if self.may_go_on() else 0

    def offered(self) -> list[tuple[int, Hits]]:
        """Return the values that the next item may have, and the counts after it."""
        try:
            return self._offered
        except AttributeError:
            self._offered: list[tuple[int, Hits]] = self._find_offered()
            return self._offered

    def _find_offered(self) -> list[tuple[int, Hits]]:
        assert isinstance(self.used, int)
        ways = list(self.values.choices(self.plan).offered(self.index, self.hits, self.used))
        charge(sum(some.bit_length() for some, _ in ways) / _OFFERED_A_CHARGE)
        return sorted((k, hits) for some, hits in ways for k in range(some.bit_length()) if some >> k & 1)

    def after(self, value: int, hits: Hits) -> ListedState:
        """Return the state after the next item, which is `value`."""
        assert isinstance(self.used, int)
        used = self.used | 1 << value
        found = self.values.array_state(self.plan, self.index + 1, hits, used, self.follow)
        assert isinstance(found, ListedState)
        return found

    def rest(self) -> list[str] | None:
        """Return the texts of items up to where the array may end."""
        assert self.plan.listed is not None
        assert isinstance(self.used, int)
        choices, index, hits, used = self.values.choices(self.plan), self.index, self.hits, self.used
        found = []
        while not choices.is_end(index, hits):
            some, hits = next(choices.offered(index, hits, used), (0, hits))
            if not some:
                return None
            charge(_OF_ITEM)
            index, used = index + 1, used | some & -some
            found.append(self.plan.listed.values[(some & -some).bit_length() - 1].text)
        return found

    def parts(self) -> tuple[Reading, ...]:
        assert self.plan.listed is not None
        words: list[tuple[int, Hits]] = []
        others: list[tuple[int, Hits]] = []
        readings: list[Reading] = []
        for k, hits in self.offered():
            value = self.plan.listed.values[k]
            if value.text[0] in "[{":
                readings.append(self.values.start(value.terms, self.after(k, hits).part_done()))
            else:
                (words if value.text[0] == '"' else others).append((k, hits))
        return (*readings, *self._scalars(words, others))

    def _scalars(self, words: list[tuple[int, Hits]], others: list[tuple[int, Hits]]) -> Iterator[Reading]:
        assert self.plan.listed is not None
        values = self.plan.listed.values
        if words:
            strings = literals([json.loads(values[k].text) for k, _ in words])
            taken = ValueDone(self, words)
            yield ByteChoice({QUOTE: lambda: (InLexeme(strings, strings.start, taken),)})
        if others:
            spelled = [(text, at) for at, (k, _) in enumerate(others) for text in _spellings(values[k].text)]
            lexeme = Words(spelled)
            yield InLexeme(lexeme, lexeme.start, ValueDone(self, others))


class ValueDone(Continuation):
    """After a scalar; outcome k = `offered[k]`."""

    __slots__ = ("offered", "state")

    def __init__(self, state: ListedState, offered: list[tuple[int, Hits]]) -> None:
        super().__init__()
        self.state = state
        self.offered = offered

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.state.after(*self.offered[outcome]).between()

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        state = self.state.after(*self.offered[outcome])
        guard = closed_guard(state)
        return () if guard is not None and not run.passes(guard, end_offset) else state.between()


def _spellings(text: str) -> list[bytes]:
    if text[0] not in "-0123456789":
        return [text.encode()]
    return spellings(Fraction(Decimal(text)))
