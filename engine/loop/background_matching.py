"""Run slow grammars on a background thread, so that other sequences' steps do not wait for them.

A step gives each matcher a few milliseconds. The matcher of a sequence that needs more, or has often needed some, is
moved to the background: after each token a thread makes it accept that token and fill the next mask, and only then the
sequence continues. Tenants take turns at the thread, which sleeps as long as it works, to leave the interpreter to the
engine.

Not covered: beam searches and `close_on_length`, whose matchers move in the middle of a step. They end with an error
past `QUICK_S`, or past `LONGER_S` where that is their first such work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from weakref import WeakSet

import numpy as np
from torch import Tensor

from sluicegate.engine.sampling.bitmasks import words_for
from sluicegate.engine.sampling.outcomes import SampledToken
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.plugins import CompiledGrammar, GrammarTooCostly, Mask, Matcher

QUICK_S = 0.005
"""CPU time of one call within a step. In a test of 600 real schemas, 36 masks took longer, each once."""
LONGER_S = 0.1
"""The same limit where the call cannot be moved to the background."""
OFTEN_S, A_TOKEN_S = 0.05, 0.0005
"""A matcher that has taken more CPU time than `OFTEN_S` plus `A_TOKEN_S` per token is moved to the background."""
REQUEST_TOKEN_S = 0.01
"""CPU time that each token of a request adds to the total its grammars may take."""
SLICE_S = 0.001
IDLE_S = 10.0
"""A thread without work ends after this time."""


class BackgroundMatcher:
    """Wraps a matcher that the background thread advances. The engine thread leaves it alone from `begin` until the
    work is done."""

    def __init__(self, matcher: Matcher, words: int) -> None:
        self.matcher = matcher
        self._row = np.zeros(words, np.int32)
        self._masked: bool | None = None
        """None = there is no mask for the matcher's current state."""
        self._ahead: int | None = None
        """A token that the matcher has already accepted and the sequence does not have yet."""
        self._finished = False

    @property
    def is_ready(self) -> bool:
        return self._masked is not None

    def work(self, token: int | None) -> None:
        """Accept `token`, if given, and fill the next mask. Runs on the background thread."""
        self._masked = None
        if token is not None:
            self.matcher.accept(token)
            self._ahead = token
        self._finished = self.matcher.is_finished
        self._masked = self._finished or self.matcher.fill_mask(self._row)

    def fill_mask(self, row: Mask) -> bool:
        """Copy the mask into `row` int32 [words]; return False if it allows every token. Raises `GrammarTooCostly` if
        the mask is not ready."""
        if self._masked is None:
            raise GrammarTooCostly("the mask of this grammar is not ready yet")
        row[:] = self._row
        return self._masked

    def accept(self, token_id: int) -> None:
        if self._ahead == token_id:
            self._ahead = None
        else:
            self._masked = None
            self.matcher.accept(token_id)

    def rollback(self, n: int) -> None:
        self._masked = None if n else self._masked
        self.matcher.rollback(n)

    def forced_tokens(self) -> list[int]:
        """Return []: forced tokens are drawn instead, under a mask that allows nothing else."""
        return []

    @property
    def can_stop(self) -> bool:
        return self.matcher.can_stop

    @property
    def is_finished(self) -> bool:
        return self._finished

    @property
    def worked_s(self) -> float:
        return self.matcher.worked_s

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        self.matcher.bound(cpu_s, wait=wait, pause=pause)

    def shortest_completion(self) -> None:
        """Return None: the search would run on the engine thread."""
        return


class PendingMatch:
    """A sequence waiting for its matcher. Then a token is drawn from `logits` [V], or `drawn` is appended."""

    __slots__ = ("closing", "drawn", "error", "logits", "rested", "sequence", "slow")

    def __init__(
        self,
        sequence: Sequence,
        slow: BackgroundMatcher,
        logits: Tensor | None,
        drawn: SampledToken | None,
        closing: threading.Event,
    ) -> None:
        self.closing = closing
        self.sequence = sequence
        self.slow = slow
        self.logits = logits
        self.drawn = drawn
        self.error: Exception | None = None
        self.rested = 0.0

    def run(self, cpu_s: float) -> None:
        self.rested = time.perf_counter()
        try:
            self.slow.matcher.bound(cpu_s, pause=self._pause)
            self.slow.work(None if self.drawn is None else self.drawn.token_id)
        except Exception as error:
            self.error = error
        finally:
            self.slow.matcher.bound(QUICK_S, wait=False)

    def _pause(self) -> None:
        if self.sequence.state is SequenceState.ENDED or self.closing.is_set():
            raise InterruptedError("nobody waits for this sequence any more")
        worked = time.perf_counter() - self.rested
        if worked >= SLICE_S:
            time.sleep(worked)
            self.rested = time.perf_counter()


class BackgroundMatching:
    """The background thread of one core and its queue. Called by the engine thread unless marked otherwise."""

    def __init__(self, vocab_size: int, cpu_s: float, request_s: float) -> None:
        """Set the budgets, in CPU seconds: `cpu_s` for one mask or token; `request_s` for a request, and
        `REQUEST_TOKEN_S` for each of its tokens."""
        self._words = words_for(vocab_size)
        self._cpu_s, self._request_s = cpu_s, request_s
        self._costly: WeakSet[CompiledGrammar] = WeakSet()
        """Grammars whose sequences start in the background, from their first mask on."""
        self._lines: dict[str, deque[PendingMatch]] = {}
        self._done: deque[PendingMatch] = deque()
        self._change = threading.Condition()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self.waiting: set[Sequence] = set()

    def open(self, matcher: Matcher, grammar: CompiledGrammar, *, movable: bool) -> Matcher:
        """Limit the CPU time per call of `matcher` and return it, wrapped if its grammar was slow before. `movable`: it
        may run in the background."""
        matcher.bound(QUICK_S if movable else LONGER_S, wait=not movable)
        return BackgroundMatcher(matcher, self._words) if movable and grammar in self._costly else matcher

    def move(self, sequence: Sequence) -> BackgroundMatcher | None:
        """Move a sequence's matcher to the background for good; return the wrapper, or None for beams and
        `close_on_length`."""
        matcher, grammar = sequence.matcher, sequence.owner.job.grammar
        if isinstance(matcher, BackgroundMatcher):
            return matcher
        if matcher is None or sequence.is_beam or sequence.closer is not None:
            return None
        if grammar is not None:
            self._costly.add(grammar)
        sequence.matcher = slow = BackgroundMatcher(matcher, self._words)
        sequence.draft, sequence.drafter = [], None
        return slow

    def takes_often(self, sequence: Sequence) -> bool:
        """Return whether a matcher has spent so much CPU time in all that it should be moved."""
        matcher = sequence.matcher
        if matcher is None or isinstance(matcher, BackgroundMatcher):
            return False
        spent = matcher.worked_s
        return spent > OFTEN_S and spent > OFTEN_S + A_TOKEN_S * sequence.generated

    def is_expensive(self, sequence: Sequence) -> bool:
        """Return whether the matcher's CPU time makes `check` worth calling: for most it does not."""
        return _worked_s(sequence) > min(OFTEN_S, self._request_s)

    def check(self, all_of: Iterable[Sequence]) -> None:
        """Raise `GrammarTooCostly` where the matchers of one request have together exceeded its CPU budget."""
        spent, tokens = 0.0, 0
        for one in all_of:
            spent += _worked_s(one)
            tokens += one.generated
        if spent > self._request_s + REQUEST_TOKEN_S * tokens:
            raise GrammarTooCostly(
                f"following the grammar has taken {spent:.1f} s of CPU time for {tokens} tokens; a request may take "
                f"{self._request_s:g} s and {REQUEST_TOKEN_S:g} s for each token: make the grammar less ambiguous"
            )

    def begin(
        self, sequence: Sequence, slow: BackgroundMatcher, logits: Tensor | None, drawn: SampledToken | None
    ) -> None:
        """Queue work that a sequence waits for: accept `drawn` if given, and fill the mask; `logits` [V] are drawn from
        later."""
        self.waiting.add(sequence)
        pending = PendingMatch(sequence, slow, logits, drawn, self._closing)
        with self._change:
            self._lines.setdefault(sequence.tenant, deque()).append(pending)
            self._change.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="grammars", daemon=True)
                self._thread.start()

    def take(self) -> list[PendingMatch]:
        """Return the sequences whose matchers have finished or failed since the last call."""
        found: list[PendingMatch] = []
        if self.waiting:
            self._news.clear()
            while self._done:
                found.append(self._done.popleft())
                self.waiting.discard(found[-1].sequence)
        return found

    def rest(self) -> None:
        """Wait up to 5 ms for a matcher to finish; not longer, since other work may arrive."""
        self._news.wait(0.005)

    def close(self) -> None:
        """Stop the thread and join it; work in progress fails."""
        self._closing.set()
        with self._change:
            self._change.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _serve(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._lines or self._closing.is_set(), IDLE_S)
                if not self._lines or self._closing.is_set():
                    self._thread = None
                    return
                tenant, line = next(iter(self._lines.items()))
                del self._lines[tenant]
                waiting = line.popleft()
                if line:
                    self._lines[tenant] = line  # behind the others
            if waiting.sequence.state is not SequenceState.ENDED:
                waiting.run(self._cpu_s)
            self._done.append(waiting)
            self._news.set()


def _worked_s(sequence: Sequence) -> float:
    return 0.0 if sequence.matcher is None else sequence.matcher.worked_s
