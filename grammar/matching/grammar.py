"""A compiled grammar: what its matchers share."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sluicegate.grammar.blocked.watch import Screens
from sluicegate.grammar.completion.costs import Costs
from sluicegate.grammar.matching.call_limits import CallLimits
from sluicegate.grammar.matching.matcher import LazyMatcher
from sluicegate.grammar.matching.state import ParserState, ParserStates
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import Unsatisfiable

_CHARGES, _TOKENS = 34_000, 131_072
"""Work allowed for a token of Lark or GBNF, about 50 ms, so that the same grammars are accepted on any machine; and the
vocabulary size that it refers to, since a larger one takes more work."""
_OF_STEP = 1.5
_ADVICE = (
    "make fewer alternatives, patterns or conditions meet in one value, or bound the time of calls yourself by "
    "LazyMatcher.bound"
)


class LazyGrammar:
    """Immutable for its users; what it works out on the way is shared by all its matchers.

    `notes`: what the compiler wants the author to know (for example formats that only annotate).
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        start: Callable[[], tuple[Reading, ...]],
        *,
        needs_text: bool,
        reading_limit: int = 2_000,
        notes: tuple[str, ...] = (),
        tape: Callable[[], Tape] = Tape,
        trailing: TrieNode | None = None,
        screens: Screens | None = None,
        doubtful: bool = False,
        of_schema: bool = False,
        subject: str = "the grammar",
    ) -> None:
        """Make a grammar over `vocabulary` whose first readings `start` makes.

        `tape` makes the text of a matcher; `trailing`: tokens that may end a JSON value and go on with no JSON;
        `screens`: what no text may hold; `of_schema`: all of it is one JSON Schema; `subject`: what an
        error calls what is read where nothing that is read has a name. With `doubtful`, raises
        `Unsatisfiable` where these leave no way to the end.
        """
        self.vocabulary = vocabulary.warm()
        self.screens = screens
        self.new_tape = tape
        self._trailing = trailing
        self.notes = notes
        self.needs_text = needs_text or screens is not None
        self._start = start
        self._reading_limit = reading_limit
        self.costs = Costs()
        charges = _CHARGES * max(1.0, vocabulary.size / _TOKENS)
        self.usual = (
            CallLimits(charges=charges, step=_OF_STEP, advice=_ADVICE) if of_schema else CallLimits(charges=charges)
        )
        """Limit for a matcher without its own."""
        self.subject = subject
        self.lock = threading.Lock()
        """Held while something is computed that no matcher has needed before."""
        self._states, self._first = self._begin()
        if doubtful and self.matcher().shortest_completion() is None:
            raise Unsatisfiable("the blocklist leaves no answer, or none that could be found")

    def _begin(self) -> tuple[ParserStates, ParserState]:
        states = ParserStates(self.vocabulary, self._reading_limit, self._trailing)
        return states, states.intern(self._start())

    @property
    def learned_bytes(self) -> int:
        """Return about how many bytes its matchers have added since it was compiled."""
        return self._states.bytes_kept

    def matcher(self) -> LazyMatcher:
        """Make a new matcher. What earlier ones worked out is shared until it is too much; then it is left to them."""
        if self._states.full:
            self._states, self._first = self._begin()
        return LazyMatcher(self, self._states, self._first)
