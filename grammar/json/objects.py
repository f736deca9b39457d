"""Objects: which names may come next, and what their values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from sluicegate.grammar.classification.openings import of_scalar
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import Container, LayoutSource, PartDone, closed_guard
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.object_plan import ObjectPlan
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.lexemes.scalars import string_lexemes
from sluicegate.grammar.reading.continuations import Continuation, followed, of_lexeme
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, after_byte, joined
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_COLON = 0x3A


class ObjectSource(LayoutSource, Protocol):
    """What objects ask of the values of a grammar."""

    def object_state(
        self,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> ObjectState:
        """Return the state for these arguments: the same object every time, as long as it is kept."""


class ObjectState(Container):
    """An open object between members. `at`: next listed name in order, or a bit set of those given (any order);
    `count`: members so far, 0 where nobody asks; `met`: bit set of the demands met so far; `used`: free names that
    came, once one of them begins no longer one; `kinds`: lexemes of the free names that are left, each with the plan's
    kinds of names by its outcomes."""

    __slots__ = ("_entered", "_free", "_names", "_offered", "_read", "at", "count", "entries", "kinds", "met", "used")
    bracket = 0x7D
    plan: ObjectPlan
    values: ObjectSource

    def __init__(
        self,
        values: ObjectSource,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> None:
        super().__init__(follow)
        self.values = values
        self.plan = plan
        self.at = at
        self.count = count
        self.met = met
        self.used = used
        self.kinds = plan.free_lexemes if used is None else _left(plan, used)
        self.entries: dict[tuple[int, int], MemberStart] = {}
        self._names: tuple[Reading, ...] | None = None
        self._offered: list[int] | None = None
        self._read: tuple[int, int] | None = None
        self._free: tuple[FreeName, ...] | None = None
        self._entered: dict[int, Lookahead | None] = {}

    def pointer(self) -> str:
        return next(filter(None, map(self.values.pointer, self.plan.values)), "")

    # --- what may come next ---

    def missing(self) -> int:
        """Return how many required names have not come yet."""
        plan = self.plan
        if not plan.any_order:
            return plan.required_from[self.at]
        return (plan.required_set & ~self.at).bit_count()

    def may_close(self) -> bool:
        plan = self.plan
        if self.missing() or (plan.counts and self.count < plan.low):
            return False
        return not plan.some or (self.met | plan.skipped(self.at)) + 1 == 1 << plan.some

    def offered(self) -> list[int]:
        """Return the indices of the listed names that may come next and leave the object completable."""
        if self._offered is not None:
            return self._offered
        plan = self.plan
        if plan.in_order:
            self._offered = list(range(self.at, plan.until[self.at]))
            return self._offered
        room = None if plan.high is None else plan.high - self.count
        found: list[int] = []
        missing = self.missing()
        for i in range(self.at if not plan.any_order else 0, len(plan.names)):
            if plan.any_order and self.at >> i & 1:
                continue
            needed = plan.required[i]
            fits = bool(self.ways(i)) if plan.some else room is None or missing + (not needed) <= room
            if fits and self._enough_left(i):
                found.append(i)
            if needed and not plan.any_order:
                break
        self._offered = found
        return found

    def _is_offered(self) -> bool:
        """Return whether some listed name may come next."""
        return bool(self.plan.left(self.at)) if self.plan.unordered else bool(self.offered())

    def _enough_left(self, i: int) -> bool:
        """Return whether, after name `i`, the names left can still reach the least number of members."""
        plan = self.plan
        if not plan.counts or plan.any_order or (plan.free and plan.supply is None):
            return True
        return self.count + len(plan.names) - i + (plan.supply or 0) >= plan.low

    def ways(self, index: int) -> list[tuple[ObjectState, Conjunction]]:
        """Return where name `index` (-1 - k: a free name of kind k) leads, and with what value; only what can be
        completed."""
        plan = self.plan
        claims = plan.claims[index] if index >= 0 else plan.free_claims[-1 - index]
        found = []
        for hits, terms in claims:
            after = self.after_listed(index, hits) if index >= 0 else self.after_free(hits)
            if plan.ends.reachable(after.at, after.met, after.count):
                found.append((after, terms))
        return found

    def offers_free(self) -> bool:
        plan = self.plan
        if not self.kinds:
            return False
        if plan.some:
            offered = any(self.ways(-1 - k) for kinds, _ in self.kinds for k in kinds)
            return offered and (plan.any_order or not self.missing())
        if plan.supply is not None and not plan.any_order and self.at < len(plan.names):
            return not self.missing() and self.count + plan.supply >= plan.low
        missing = self.missing()
        if plan.high is not None and self.count + missing + 1 > plan.high:
            return False
        return plan.any_order or not missing

    def may_go_on(self) -> bool:
        return self.offers_free() or self._is_offered()

    # --- names ---

    def parts(self) -> tuple[Reading, ...]:
        if self._names is None:
            self._names = (ByteChoice({QUOTE: NameStart(self)}),)
        return self._names

    def in_name(self) -> tuple[Reading, ...]:
        readings: list[Reading] = []
        if self._is_offered():
            lexeme = self._listed()
            readings.append(InLexeme(lexeme, lexeme.start, ListedName(self)))
        readings.extend(InLexeme(name.lexeme, name.lexeme.start, name) for name in self._free_names())
        return tuple(readings)

    def _free_names(self) -> tuple[FreeName, ...]:
        """Return what follows free names, for each lexeme of those that may come next."""
        if self._free is None:
            kinds = self.kinds if self.offers_free() else ()
            offered = [each for each in kinds if not self.plan.some or self.ways(-1 - each[0][0])]
            self._free = tuple([FreeName(self, some, lexeme) for some, lexeme in offered])
        return self._free

    def _listed(self) -> Literals:
        """Return the lexeme of the listed names that may come next, of which there is at least one."""
        plan = self.plan
        if plan.unordered:
            return plan.names_left(self.at)
        offered = self.offered()
        chosen = range(offered[0], offered[-1] + 1) if plan.in_order else frozenset(offered)
        return Literals([pair for pair in plan.spelled if pair[1] in chosen])

    # --- members ---

    def after_listed(self, i: int, hits: int = 0) -> ObjectState:
        plan = self.plan
        at = self.at | 1 << i if plan.any_order else i + 1
        if plan.some and not plan.any_order:
            hits |= plan.skipped(self.at, i)
        return self.values.object_state(plan, at, self.count + plan.counts, self.follow, self.met | hits, self.used)

    def after_free(self, hits: int = 0) -> ObjectState:
        plan = self.plan
        at = self.at if plan.any_order else len(plan.names)
        if plan.some and not plan.any_order:
            hits |= plan.skipped(self.at)
        return self.values.object_state(plan, at, self.count + plan.counts, self.follow, self.met | hits, self.used)

    def without(self, names: GivenTexts) -> ObjectState:
        """Return the same state with the free names `names` counted as given."""
        return self.values.object_state(self.plan, self.at, self.count, self.follow, self.met, names)

    def entries_of(self, index: int) -> list[MemberStart]:
        """Return what may follow name `index` (-1 - k: a free name of kind k), given from here."""
        plan = self.plan
        if plan.some:
            ways = self.ways(index)
            return [after.entry(index, terms, way) for way, (after, terms) in enumerate(ways)]
        if index >= 0:
            return [self.after_listed(index).entry(index, plan.values[index])]
        return [self.after_free().entry(index, plan.free[-1 - index])]

    def entry(self, index: int, terms: Conjunction, way: int = 0) -> MemberStart:
        """Return what follows the name that led to this state: `index` of a listed one, -1 - k for the k-th kind of
        free ones.

        The same object from wherever the name was offered.
        """
        found = self.entries.get((index, way))
        if found is None or found.terms != terms:
            found = self.entries[index, way] = MemberStart(self, terms)
        return found

    def part_done(self) -> Continuation:
        if self._done is None:
            self._done = MemberDone(self, closed_guard(self))
        return self._done

    # --- lookahead; None as in `Container` ---

    def entry_lookahead(self, index: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after name `index` (-1 - k: a free name of kind k): `:`, perhaps blanks, the value, and
        on. None: it is not known here."""
        if self.plan.some or at is not vocabulary.punctuation.root:
            return None
        return (self.after_listed(index) if index >= 0 else self.after_free())._entered_lookahead(index, vocabulary)

    def _entered_lookahead(self, index: int, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after name `index`, asked of the state that it leads to: one for all states that offer
        it."""
        if index not in self._entered:
            self._entered[index] = self._find_entered(index, vocabulary)
        return self._entered[index]

    def _find_entered(self, index: int, vocabulary: Vocabulary) -> Lookahead | None:
        plan, values, punctuation = self.plan, self.values, vocabulary.punctuation
        colon = punctuation.by_path.get(b":")
        if colon is None:
            return None
        terms = plan.values[index] if index >= 0 else plan.free[-1 - index]
        layout, done = values.layout, self.part_done()
        found = values.value_lookahead(terms, punctuation.root, vocabulary)
        ends = found.ends
        for _, _, _, more in found.doubtful:
            ends |= more
        if not layout.delayed(layout.colon, ends, punctuation) & colon.domain:
            # No token begins with the colon and goes on behind the value.
            found = found.whole()
        elif done.is_asked(0):
            return None
        else:
            found = followed(found, done, 0, punctuation.root, vocabulary)
        after = after_byte(colon, layout.spaced_lookahead(layout.colon, found, punctuation))
        return after._replace(read=HERE | after.read | colon.lift(HERE))

    def parts_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        if not self.may_go_on():
            return OVER
        plan, layout, punctuation = self.plan, self.values.layout, vocabulary.punctuation
        read, ends = self._listed_read(punctuation)
        if plan.some or (ends and layout.delayed(layout.block, ends, punctuation) & at.domain):
            return None
        ends = 0
        for name in self._free_names():
            inside, over = of_scalar(name.lexeme, punctuation)
            read |= inside
            ends |= over
        there = layout.delayed(layout.block, ends, punctuation) & at.domain
        colon = punctuation.by_path.get(b":")
        if there and colon is not None and punctuation.behind(there, 1 << colon.number) & at.domain:
            return None
        read = HERE | layout.spaced(layout.block, read, punctuation)
        if not there:
            return Lookahead(read)
        # A new name that ends where its token ends: nothing but the name itself is asked about.
        spaced = there & ~ends
        doubtful = [((plan.distinct,), True, ends & at.domain, 0), ((plan.distinct,), False, spaced, 0)]
        return Lookahead(read, 0, tuple([each for each in doubtful if each[2]]))

    def name_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead of a name at `at`, from its opening quote on. None: a listed name may end there, or
        demands are counted."""
        punctuation = vocabulary.punctuation
        read, ends = self._listed_read(punctuation)
        if ends or self.plan.some:
            return None
        parts = [Lookahead(HERE | read)]
        parts += [of_lexeme(name.lexeme, name, at, vocabulary) for name in self._free_names()]
        return joined(parts)

    def _listed_read(self, punctuation: PunctuationTrie) -> tuple[int, int]:
        """Return what a listed name reads from its opening quote on, and where it may end."""
        plan = self.plan
        if self._read is None:
            if plan.in_order:
                self._read = plan.read_from(self.at, punctuation)
            elif plan.unordered:
                self._read = plan.read_of(plan.left(self.at), punctuation)
            else:
                read = ends = 0
                known = plan.names_read(punctuation)
                for i in self.offered():
                    read |= known[i][0]
                    ends |= known[i][1]
                self._read = read, ends
        return self._read


def _left(plan: ObjectPlan, used: GivenTexts) -> tuple[tuple[tuple[int, ...], Lexeme], ...]:
    """Return the kinds of free names, less the names in `used`."""
    left = [replace(part, given=used) for part in plan.free_names]
    return tuple(((k,), lexeme) for k, part in enumerate(left) for lexeme in string_lexemes((part,)))


class NameStart(Then):
    """Before the first byte of a name, behind its opening quote."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.in_name)
        self.state = state

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.name_lookahead(at, vocabulary) or super()._find(outcome, at, vocabulary)


class MemberStart(Continuation):
    """After a name: `:`, perhaps blanks, the value, and on with `state`."""

    __slots__ = ("_known", "state", "terms")

    def __init__(self, state: ObjectState, terms: Conjunction) -> None:
        super().__init__()
        self.state = state
        self.terms = terms
        self._known: tuple[Reading, ...] | None = None

    def after(self, outcome: int) -> tuple[Reading, ...]:
        if self._known is None:
            layout = self.state.values.layout
            self._known = (ByteChoice({_COLON: Then(lambda: layout.optional(layout.colon, Then(self._value)))}),)
        return self._known

    def _value(self) -> tuple[Reading, ...]:
        return (self.state.values.start(self.terms, self.state.part_done()),)


class ListedName(Continuation):
    """After a listed name; the outcome is its index."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__()
        self.state = state

    def pointer(self) -> str:
        return self.state.pointer()

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.state.entries_of(outcome) for reading in entry.after(0)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.entry_lookahead(outcome, at, vocabulary) or super()._find(outcome, at, vocabulary)


class FreeName(Continuation):
    """After a name that is not listed, of the plan's kind `kinds[outcome]`."""

    __slots__ = ("kinds", "lexeme", "state")

    def __init__(self, state: ObjectState, kinds: tuple[int, ...], lexeme: Lexeme) -> None:
        super().__init__(state.plan.distinct)
        self.state = state
        self.kinds = kinds
        self.lexeme = lexeme

    def entries(self, outcome: int) -> list[MemberStart]:
        return self.state.entries_of(-1 - self.kinds[outcome])

    def pointer(self) -> str:
        outcomes = range(len(self.kinds))
        found = (entry.state.values.pointer(entry.terms) for k in outcomes for entry in self.entries(k))
        return next(filter(None, found), "")

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.entries(outcome) for reading in entry.after(0)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        readings, state = super().finish(outcome, run, end_offset), self.state
        if not readings or not state.plan.leafy:
            return readings
        assert run.tape is not None
        assert run.tape.open is not None
        run.reads_text()
        name = run.tape.last_string()
        if state.used is not None:
            used = state.used.plus(name)
        elif not strings.ends_at(state.plan.free_names, name):
            return readings
        else:
            used = state.plan.none_given
            for each in sorted((run.tape.open.keys.all() | {name}) - state.plan.refused):
                used = used.plus(each)
        return FreeName(state.without(used), (self.kinds[outcome],), self.lexeme).after(0)

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        known = self.state.entry_lookahead(-1 - self.kinds[outcome], at, vocabulary)
        return known or super()._find(outcome, at, vocabulary)


class MemberDone(PartDone):
    """After a member of an object."""

    __slots__ = ()
    outward = True
    state: ObjectState

    def pointer(self) -> str:
        return self.state.pointer()
