"""The plan of an object: its listed names, the kinds of free names, and the terms of their values."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, chain

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.classification.openings import of_word
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.existentials import Claims
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.lexemes.literals import Literals, plain, sorted_spellings
from sluicegate.grammar.lexemes.remaining import Remaining, SharedWords
from sluicegate.grammar.lexemes.scalars import string_lexemes
from sluicegate.grammar.reading.guards import DistinctKey, Guard
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.vocabulary.punctuation import PunctuationTrie, bit_numbers
from sluicegate.plugins.errors import GrammarLimit

_LONG = 64
"""Listed names above which lexemes of subsets share one table of spellings."""
_OF_NAME, _COMPARED_A_CHARGE = 3, 12
"""Work charged for a name that is combined with others, and pairs of entries compared per unit charged."""
_OF_READ, _OF_SPELLING, _SPELLED_A_CHARGE = 1.2, 0.7, 12
"""Work charged for the punctuation that a listed name reads, for its spelling, and listed names that are looked through
per unit charged."""
_FEW = 8
_MOST = 256
"""Maximum sets of met constraints that are tracked separately."""
_MOST_KEPT = 100_000
"""Maximum of these sets for all names of one object together."""


class ObjectPlan:
    """One alternative of an object. Every listed name has a value. Immutable but for caches.

    The value of `names[i]` satisfies `values[i]`. Unless `any_order`, names come in this order, and free names after
    all of them. `free`: terms of the values of names that are not listed, by kind.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        values: tuple[Conjunction, ...],
        required: tuple[bool, ...],
        free: tuple[Conjunction, ...],
        refused: frozenset[str],
        low: int,
        high: int | None,
        any_order: bool,
        check: Guard | None,
        some: int = 0,
        claims: tuple[Claims, ...] = (),
        free_claims: tuple[Claims, ...] = (),
        skips: tuple[int, ...] = (),
        free_names: tuple[Strings, ...] = (),
        free_lexemes: tuple[tuple[tuple[int, ...], Lexeme], ...] = (),
        supply: int | None = None,
    ) -> None:
        self.names = names
        self.values = values
        self.required = required
        self.free = free
        self.refused = refused
        """Names that are not free: listed ones, and those that must be absent."""
        self.low = low
        self.high = high
        self.any_order = any_order
        self.check = check
        self.some = some
        """Number of existential constraints. If any, `claims` and `free_claims` list for each name and each kind of
        free names the ways to give it: (bit set of the constraints it then meets, terms of its value)."""
        self.claims = claims
        self.free_claims = free_claims
        self.skips = skips
        """For each name, the bit set of the constraints that are met if it is absent."""
        self.free_names = free_names
        """For each of `free`, the set of its names."""
        self.free_lexemes = free_lexemes
        """Lexemes of the free names, each with the kinds of names by outcome."""
        self.supply = supply
        """Number of free names, if they may be too few."""
        self.counts = low > sum(required) or high is not None
        self.in_order = not (any_order or self.counts or some)
        """Whether the names that may come next depend only on the index of the last one."""
        self.required_set = int("".join(["1" if needed else "0" for needed in reversed(required)]) or "0", 2)
        """Bit set of the required names."""
        self.required_from = tuple(accumulate(reversed(required), initial=0))[::-1]
        """For each index how many required names stand at or after it."""
        self._read: dict[PunctuationTrie, list[tuple[int, int]]] = {}
        self._read_from: dict[PunctuationTrie, list[tuple[int, int]]] = {}
        self._read_groups: dict[PunctuationTrie, dict[tuple[int, int], int]] = {}
        """Bit sets of names by `names_read`."""
        # asked of few plans, or not before the first of the object's names
        self._none_given: GivenTexts | None = None
        self._ends: Ends | None = None
        self._until: list[int] | None = None
        self._skipping: list[int] | None = None
        self._shared_words: SharedWords | None = None
        self._spelled: list[tuple[bytes, int]] | None = None
        self._leafy: bool | None = None
        self._distinct: DistinctKey | None = None

    @property
    def none_given(self) -> GivenTexts:
        """Return an empty list of names that were given."""
        if self._none_given is None:
            self._none_given = GivenTexts()
        return self._none_given

    @property
    def ends(self) -> Ends:
        if self._ends is None:
            self._ends = Ends(self)
        return self._ends

    def skipped(self, at: int, until: int | None = None) -> int:
        """Return the bit set of the constraints met by absent names. In order: the names from `at` to `until` (None: to
        the end). In any order: all names but those in `at`."""
        names = self.left(at) if self.any_order else (1 << (len(self.names) if until is None else until)) - (1 << at)
        return sum(1 << demand for demand, absent in enumerate(self.skipping) if absent & names)

    @property
    def skipping(self) -> list[int]:
        """Return for each existential constraint the bit set of the names whose absence meets it; none is
        required."""
        if self._skipping is None:
            latest_first = [0 if needed else skip for skip, needed in zip(self.skips, self.required, strict=True)][::-1]
            bits = ["".join(["1" if each >> some & 1 else "0" for each in latest_first]) for some in range(self.some)]
            self._skipping = [int(each or "0", 2) for each in bits]
        return self._skipping

    @property
    def until(self) -> list[int]:
        """Return for each index the end of the range of names that may come next: after the first required one."""
        if self._until is None:
            found = [len(self.names)]
            for i in reversed(range(len(self.names))):
                found.append(i + 1 if self.required[i] else found[-1])
            self._until = found[::-1]
        return self._until

    def left(self, given: int) -> int:
        """Return the bit set of the listed names that are not in `given`."""
        return (1 << len(self.names)) - 1 & ~given

    def among(self, names: int) -> Literals:
        """Return the lexeme of the listed names in the bit set `names`."""
        if len(self.names) <= _LONG:
            charge(len(self.names) / _SPELLED_A_CHARGE)
            return Literals([pair for pair in self.spelled if names >> pair[1] & 1])
        if names.bit_count() <= _LONG:
            charge(names.bit_count() / _SPELLED_A_CHARGE)
            return Literals(sorted((plain(self.names[i]) + b'"', i) for i in bit_numbers(names)))
        return Remaining(self._shared, names)

    @property
    def _shared(self) -> SharedWords:
        if self._shared_words is None:
            self._shared_words = SharedWords(self.spelled)
        return self._shared_words

    @property
    def spelled(self) -> list[tuple[bytes, int]]:
        """Return the usual spellings of the names, sorted, with their indices."""
        if self._spelled is None:
            charge(len(self.names) * _OF_SPELLING)
            self._spelled = sorted_spellings(self.names)
        return self._spelled

    def names_read(self, punctuation: PunctuationTrie) -> list[tuple[int, int]]:
        """Return for each listed name the punctuation nodes that it reads after its opening quote, and those at which
        it ends."""
        found = self._read.get(punctuation)
        if found is None:
            charge(len(self.names) * _OF_READ)
            found = self._read[punctuation] = [of_word(plain(name) + b'"', punctuation) for name in self.names]
        return found

    def read_of(self, left: int, punctuation: PunctuationTrie) -> tuple[int, int]:
        """Return the union of `names_read` over the names in bit set `left`."""
        groups = self._read_groups.get(punctuation)
        if groups is None:
            groups = {}
            for i, known in enumerate(self.names_read(punctuation)):
                groups[known] = groups.get(known, 0) | 1 << i
            self._read_groups[punctuation] = groups
        read = ends = 0
        for (inside, over), names in groups.items():
            if names & left:
                read |= inside
                ends |= over
        return read, ends

    def read_from(self, at: int, punctuation: PunctuationTrie) -> tuple[int, int]:
        """Return the union of `names_read` over the names that may come next from index `at` on, if names come in
        order."""
        found = self._read_from.get(punctuation)
        if found is None:
            read = ends = 0
            found = [(0, 0)]
            for needed, (inside, over) in zip(
                reversed(self.required), reversed(self.names_read(punctuation)), strict=True
            ):
                read, ends = (inside, over) if needed else (read | inside, ends | over)
                found.append((read, ends))
            found.reverse()
            self._read_from[punctuation] = found
        return found[at]

    @property
    def leafy(self) -> bool:
        """Return whether some free name cannot grow into a longer one. Once it is given, no name may begin that could
        only become the same again."""
        if self._leafy is None:
            self._leafy = not all(map(strings.can_grow, self.free_names))
        return self._leafy

    def lexemes_left(self, used: GivenTexts) -> tuple[tuple[tuple[int, ...], Lexeme], ...]:
        """Return the lexemes of the free names, as `free_lexemes`, without the names in `used`."""
        left = [replace(part, given=used) for part in self.free_names]
        return tuple(((k,), lexeme) for k, part in enumerate(left) for lexeme in string_lexemes((part,)))

    @property
    def distinct(self) -> DistinctKey:
        if self._distinct is None:
            self._distinct = DistinctKey(self.refused)
        return self._distinct


def ordered_names(listed: tuple[str, ...], required: frozenset[str], order: str) -> tuple[str, ...]:
    """Return `listed` in the order that the option `property_order` asks for."""
    if order != "required_first":
        return listed
    return tuple(chain((n for n in listed if n in required), (n for n in listed if n not in required)))


class Ends:
    """Decides whether an object can still meet all existential constraints with an allowed number of members. Caches
    its answers."""

    def __init__(self, plan: ObjectPlan) -> None:
        self.plan = plan
        self._known: dict[tuple[int, int], int] = {}
        self._found_from: list[dict[int, int]] | None = None
        self._is_from_known = False

    def reachable(self, at: int, met: int, count: int) -> bool:
        """Return whether the object can be completed after `count` members that meet the constraints `met`."""
        if self._is_met(at, met, count):
            return True
        plan, sizes = self.plan, self._sizes(at, met)
        if not plan.counts:
            return bool(sizes)
        if plan.high is not None:
            sizes &= (1 << max(plan.high - count + 1, 0)) - 1
        return bool(sizes if plan.free else sizes >> max(plan.low - count, 0))

    def _is_met(self, at: int, met: int, count: int) -> bool:
        """Return whether the required names alone complete the object: a fast check for the usual case."""
        plan = self.plan
        if (met | plan.skipped(at)) + 1 != 1 << plan.some:
            return False
        missing = (plan.required_set & ~at).bit_count() if plan.any_order else plan.required_from[at]
        return not plan.counts or (count + missing >= plan.low and (plan.high is None or count + missing <= plan.high))

    def _sizes(self, at: int, met: int) -> int:
        """Return the possible numbers of further members as a bit set.

        Listed names come first, each at most once. If free names may come, the least number stands for all above it.
        """
        known = self._known.get((at, met))
        if known is None:
            every = (1 << self.plan.some) - 1
            rests = None if self.plan.any_order else self._from
            if rests is None:
                known = self._through(at, met).get(every, 0)
            else:
                known = 0
                for hits, numbers in rests[at].items():
                    known |= numbers if met | hits == every else 0
                known = known and self._least(known)
            self._known[at, met] = known
        return known

    @property
    def _from(self) -> list[dict[int, int]] | None:
        """Return by index: sets of constraints that listed names from there on and free names can meet -> numbers of
        members. All queries share this table.

        None if there are too many sets; from a state where some constraints are met, there may be fewer.
        """
        if not self._is_from_known:
            self._found_from = self._find_from()
            self._is_from_known = True
        return self._found_from

    def _find_from(self) -> list[dict[int, int]] | None:
        plan, room = self.plan, _MOST_KEPT
        sizes = {0: 1}
        try:
            for claims in plan.free_claims * plan.some:
                sizes = self._with(sizes, claims, 0)
            found = [sizes]
            for i in reversed(range(len(plan.names))):
                sizes = self._with(sizes, plan.claims[i], None if plan.required[i] else plan.skips[i])
                found.append(sizes)
                room -= len(sizes)
                if room < 0:
                    return None
        except GrammarLimit:
            return None
        return found[::-1]

    def _through(self, at: int, met: int) -> dict[int, int]:
        plan = self.plan
        sizes = {met: 1}
        for i in range(0 if plan.any_order else at, len(plan.names)):
            if not (plan.any_order and at >> i & 1):
                skip = None if plan.required[i] else plan.skips[i]
                sizes = self._with(sizes, plan.claims[i], skip)
        for claims in plan.free_claims * plan.some:
            sizes = self._with(sizes, claims, 0)
        return sizes

    def _least(self, numbers: int) -> int:
        """Keep the least number only, if larger ones make no difference."""
        plan = self.plan
        return numbers & -numbers if not plan.counts or plan.free or not plan.low else numbers

    def _with(self, sizes: dict[int, int], claims: Claims, skip: int | None) -> dict[int, int]:
        """Return sets of met constraints -> numbers of members, with one more name either given in one of the ways of
        `claims` or absent. Its absence meets the constraints `skip` (None: it is required)."""
        charge(_OF_NAME + len(sizes) * (1 + len(claims)))
        found: dict[int, int] = {}
        for met, numbers in sizes.items():
            if skip is not None:
                found[met | skip] = found.get(met | skip, 0) | numbers
            for hits, _ in claims:
                found[met | hits] = found.get(met | hits, 0) | numbers << 1
        found = {met: self._least(numbers) for met, numbers in found.items()}
        return found if len(found) <= _FEW else self._best(found)

    def _best(self, sizes: dict[int, int]) -> dict[int, int]:
        """Drop dominated entries, which meet a subset of another entry's constraints with no better numbers. Raises
        `GrammarLimit` if too many are left."""
        look()
        if len(sizes) > 2 * _MOST:
            raise GrammarLimit("what some property must be can be met in too many ways to be followed")
        plan = self.plan
        least = not plan.counts or plan.free or not plan.low
        kept: dict[int, int] = {}
        work = 0
        for met, numbers in sorted(sizes.items(), key=lambda item: (-item[0].bit_count(), item[1])):
            work += len(kept)
            if not any(
                met & ~more == 0 and (other <= numbers if least else numbers & ~other == 0)
                for more, other in kept.items()
            ):
                kept[met] = numbers
        charge(work / _COMPARED_A_CHARGE)
        if len(kept) > _MOST:
            raise GrammarLimit("what some property must be can be met in too many ways to be followed")
        return kept
