"""Compute the lookahead of an open object from facts about its names and values."""

from __future__ import annotations

from abc import abstractmethod

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.classification.openings import of_scalar
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import SourceT
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import After, ObjectProgress
from sluicegate.grammar.reading.continuations import Continuation, followed, of_lexeme
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, after_byte, joined
from sluicegate.grammar.reading.readings import InLexeme
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_OF_NAME, _OF_ENTRY = 4, 10
"""Work charged for the lookahead of an object's names, beside what their spellings are charged, and after one name. A
list of objects asks for the names of each of them."""


class ObjectLookahead(ObjectProgress[SourceT]):
    """Computes the lookahead of an open object. None, as in `Container`: only the readings can tell."""

    __slots__ = ("_entered", "_read")

    def __init__(
        self,
        values: SourceT,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> None:
        super().__init__(values, plan, at, count, follow, met, used)
        self._entered: dict[int, Lookahead | None] = {}
        self._read: tuple[int, int] | None = None

    @abstractmethod
    def moved(self, after: After) -> ObjectLookahead[SourceT]:
        """Return the state of the same object with the progress `after`."""

    @property
    @abstractmethod
    def by_text(self) -> bool:
        """Return whether what may follow a name depends on the text."""

    @abstractmethod
    def free_names(self) -> tuple[InLexeme, ...]:
        """Return the readings of the free names that may come next, after the opening quote."""

    def entry_lookahead(self, index: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after name `index` (-1 - k: a free name of kind k): `:`, optional blanks, the value, and
        what follows. None: only the readings can tell."""
        if self.plan.some or at is not vocabulary.punctuation.root:
            return None
        return self.moved(self.after(index))._entered_lookahead(index, vocabulary)

    def _entered_lookahead(self, index: int, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after name `index`; cached once for all states that offer the name."""
        if index not in self._entered:
            self._entered[index] = self._find_entered(index, vocabulary)
        return self._entered[index]

    def _find_entered(self, index: int, vocabulary: Vocabulary) -> Lookahead | None:
        charge(_OF_ENTRY)
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
            # No token begins with the colon and continues after the value.
            found = found.whole()
        elif done.is_asked(0) or values.asks_items(terms, done):
            return None
        else:
            found = followed(found, done, 0, punctuation.root, vocabulary)
        after = after_byte(colon, layout.spaced_lookahead(layout.colon, found, punctuation))
        return Lookahead(HERE | after.read | colon.lift(HERE), after.ends, after.doubtful)

    def parts_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        if not self.may_go_on():
            return OVER
        plan, layout, punctuation = self.plan, self.values.layout, vocabulary.punctuation
        read, ends = self._listed_read(punctuation)
        if plan.some or self.by_text or (ends and layout.delayed(layout.block, ends, punctuation) & at.domain):
            return None
        ends = 0
        for name in self.free_names():
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
        # A new name that ends with its token: only whether the name is new is asked.
        spaced = there & ~ends
        doubtful = [((plan.distinct,), True, ends & at.domain, 0), ((plan.distinct,), False, spaced, 0)]
        return Lookahead(read, 0, tuple([each for each in doubtful if each[2]]))

    def name_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead of a name at `at`, after its opening quote. None: a listed name may end there, or
        existential constraints are tracked."""
        charge(_OF_NAME)
        punctuation = vocabulary.punctuation
        read, ends = self._listed_read(punctuation)
        if ends or self.plan.some or self.by_text:
            return None
        parts = [Lookahead(HERE | read)]
        parts += [of_lexeme(name.lexeme, name.follow, at, vocabulary) for name in self.free_names()]
        return joined(parts)

    def _listed_read(self, punctuation: PunctuationTrie) -> tuple[int, int]:
        """Return the punctuation nodes that listed names read from the opening quote on, and those where they may
        end."""
        plan = self.plan
        if self._read is None:
            if plan.in_order:
                self._read = plan.read_from(self.at, punctuation)
            else:
                self._read = plan.read_of(self.offered(), punctuation)
        return self._read
