"""The public face of a compiled grammar: one immutable object, and a cheap matcher per sequence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from sluicegate.grammar.blocked.watch import Screens, Watch
from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.completion import Completion, shortest_completion
from sluicegate.grammar.completion.costs import Costs
from sluicegate.grammar.matching.call_limits import Bounds, bounded
from sluicegate.grammar.matching.forced import canonical_tokens, forced_text
from sluicegate.grammar.matching.state import Config, Configs, Doubt, Mask
from sluicegate.grammar.reading.readings import Thread
from sluicegate.grammar.reading.text import Place, Tape
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.trie import I32, Branch
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.contract import Mask as Row
from sluicegate.plugins.errors import GrammarTooCostly, TokenRejected, Unsatisfiable

_USUAL = Bounds()


class CompiledGrammar:
    """Immutable for its users; what it works out on the way is shared by all its matchers.

    `notes`: what the compiler wants the author to know (for example formats that only annotate).
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        start: Callable[[], tuple[Thread, ...]],
        *,
        needs_text: bool,
        thread_limit: int = 2_000,
        notes: tuple[str, ...] = (),
        tape: Callable[[], Tape] = Tape,
        beyond: Branch | None = None,
        screens: Screens | None = None,
        doubtful: bool = False,
    ) -> None:
        """`tape` makes the text of a matcher; `beyond`: tokens that may end a JSON value and go on with no JSON;
        `screens`: what no text may hold. With `doubtful`, raises `Unsatisfiable` where these leave no way to the end.
        """
        self.vocabulary = vocabulary.warm()
        self.screens = screens
        self.new_tape = tape
        self._beyond = beyond
        self.notes = notes
        self.needs_text = needs_text or screens is not None
        self._start = start
        self._thread_limit = thread_limit
        self.costs = Costs()
        self.lock = threading.Lock()
        """Of whoever works out what no matcher has asked for before."""
        self._configs, self._first = self._begin()
        if doubtful and self.matcher().shortest_completion() is None:
            raise Unsatisfiable("the blocklist leaves no answer, or none that could be found")

    def _begin(self) -> tuple[Configs, Config]:
        configs = Configs(self.vocabulary, self._thread_limit, self._beyond)
        return configs, configs.intern(self._start())

    def matcher(self) -> Matcher:
        """A new matcher. What earlier ones worked out is shared until it is too much; then it is left to them."""
        if self._configs.full:
            self._configs, self._first = self._begin()
        return Matcher(self, self._configs, self._first)


class Matcher:
    """One sequence's way through a grammar. Used by one thread at a time.

    Masks have `ceil(vocabulary.size / 32)` words; longer rows are filled up with zeros.
    """

    __slots__ = ("_at", "_bounds", "_configs", "_finished", "_grammar", "_past", "_tape", "_watch", "worked_s")

    def __init__(self, grammar: CompiledGrammar, configs: Configs, first: Config) -> None:
        self._grammar = grammar
        self._bounds = _USUAL
        self.worked_s = 0.0
        """CPU time of all calls that worked something out."""
        self._configs = configs
        self._at = first
        self._finished = False
        self._tape = grammar.new_tape() if grammar.needs_text else None
        self._past: list[tuple[Config, Place | None, bool, int, Any]] = []
        self._watch = None
        if grammar.screens is not None and self._tape is not None:
            self._watch = Watch(grammar.screens, self._tape)

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        """From now on `fill_mask` and `accept` raise `GrammarTooCostly` past so much CPU time of a call, and then
        nothing has changed but what is remembered: the same call may be made again. What else is asked gives up
        then. See `Bounds`."""
        self._bounds = Bounds(cpu_s, wait, pause)

    def _within(self, act: Callable[..., Any], *arguments: object) -> Any:
        began = time.thread_time()
        try:
            return bounded(self._bounds, self._grammar.lock, self._at.threads, act, *arguments)
        finally:
            self.worked_s += time.thread_time() - began

    # --- masks --------------------------------------------------------------------------------------------------

    def fill_mask(self, row: Row) -> bool:
        """Overwrite `row` (int32, contiguous); True: the mask must be applied.

        After the end only end-of-sequence tokens are allowed. Raises `ValueError` for a row that is too short.
        """
        vocabulary = self._grammar.vocabulary
        size = vocabulary.row_words
        if row.shape[0] != size:
            if row.ndim != 1 or row.shape[0] < size:
                raise ValueError(f"the mask needs {size} words for {vocabulary.size} tokens, the row has {row.shape}")
            row[size:] = 0
            row = row[:size]
        if self._finished:
            row.fill(0)
            kernels.set_bits(row, vocabulary.eos)
            return True
        mask = self._at.mask
        if mask is None:
            mask = self._within(self._configs.mask_of, self._at)
        kernels.put_row(row, mask.base, mask.ids)
        watch = self._watch
        if mask.doubts or (watch is not None and (watch.both or not watch.spot.bare)):
            self._within(self._narrow, mask, row)
        return True

    def _narrow(self, mask: Mask, row: Row) -> None:
        """To what the text so far leaves."""
        for doubt in mask.doubts:
            self._decide(doubt, row)
        watch = self._watch
        if watch is not None and (watch.both or not watch.spot.bare):
            watch.strike(row)

    def _decide(self, doubt: Doubt, row: Row) -> None:
        """Add those of the doubtful tokens that their guards allow."""
        tape = self._tape
        assert tape is not None
        if doubt.direct and len(doubt.guards) == 1:
            refused = doubt.guards[0].refused(tape)
            if refused is not None:
                self._add_without(doubt.ids, refused, row)
                return
        allowed = [token for token in doubt.ids.tolist() if not _bit(row, token) and self._try(token)]
        if allowed:
            kernels.set_bits(row, np.array(allowed, np.int32))

    def _add_without(self, ids: I32, refused: frozenset[str], row: Row) -> None:
        assert self._tape is not None
        vocabulary = self._grammar.vocabulary
        known = vocabulary.closing if self._tape.mode else vocabulary.quoted
        out = [known[text] for text in refused if text in known]
        if not out:
            kernels.set_bits(row, ids)
        else:
            kernels.set_bits_except(row, ids, np.concatenate(out))

    def _try(self, token: int) -> bool:
        tape = self._tape
        assert tape is not None
        tick()
        place = tape.place()
        try:
            after, _ = self._configs.take(self._at, self._grammar.vocabulary.words[token], tape)
        finally:
            tape.restore(place)
        return after is not None

    # --- moving -------------------------------------------------------------------------------------------------

    def accept(self, token_id: int) -> None:
        """Advance over a token; raises `TokenRejected`, and then nothing has changed."""
        vocabulary = self._grammar.vocabulary
        if token_id in vocabulary.eos_token_ids:
            if not (self._finished or self._at.can_stop):
                raise TokenRejected(token_id, f"token {token_id} ends the sequence, but the value is not whole yet")
            self._remember(token_id)
            self._finished = True
            return
        word = vocabulary.words[token_id] if 0 <= token_id < len(vocabulary.words) else b""
        if not word or self._finished:
            raise TokenRejected(token_id)
        known = self._at.tokens.get(token_id)
        tape = self._tape
        if self._watch is not None:
            self._within(self._accept_watched, token_id, word)
            return
        if known is not None:
            self._remember(token_id)
            if tape is not None:
                tape.push_all(word)
            self._at = known
            return
        place = tape.place() if tape is not None else None
        try:
            after, asked = self._within(self._configs.take, self._at, word, tape)
            if after is None:
                raise TokenRejected(token_id)
        except Exception:
            if tape is not None and place is not None:
                tape.restore(place)
            raise
        if not asked:
            self._at.tokens[token_id] = after
        self._past.append((self._at, place, self._finished, token_id, None))
        self._at = after

    def _accept_watched(self, token_id: int, word: bytes) -> None:
        tape, watch = self._tape, self._watch
        assert tape is not None
        assert watch is not None
        place, spot = tape.place(), watch.spot
        after = self._at.tokens.get(token_id)
        try:
            if after is not None:
                tape.push_all(word)
            else:
                after, asked = self._configs.take(self._at, word, tape)
                if after is not None and not asked:
                    self._at.tokens[token_id] = after
            if after is None or not watch.move(word, tape, place.since):
                raise TokenRejected(token_id)
        except Exception:
            tape.restore(place)
            watch.spot = spot
            raise
        self._past.append((self._at, place, self._finished, token_id, spot))
        self._at = after

    def _remember(self, token_id: int) -> None:
        place = self._tape.place() if self._tape is not None else None
        spot = self._watch.spot if self._watch is not None else None
        self._past.append((self._at, place, self._finished, token_id, spot))

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted tokens. Raises `ValueError` if there are fewer."""
        if not 0 <= n <= len(self._past):
            raise ValueError(f"cannot roll back {n} tokens, {len(self._past)} were accepted")
        if n:
            self._at, place, self._finished, _, spot = self._past[-n]
            del self._past[-n:]
            if self._tape is not None and place is not None:
                self._tape.restore(place)
            if self._watch is not None:
                self._watch.spot = spot

    def fork(self) -> Matcher:
        """An independent matcher at the same place; costs a copy of the list of accepted tokens."""
        other = Matcher.__new__(Matcher)
        other._grammar, other._configs, other._bounds = self._grammar, self._configs, self._bounds
        other.worked_s = self.worked_s
        other._at, other._finished = self._at, self._finished
        other._tape = self._tape.copy() if self._tape is not None else None
        other._past = self._past.copy()
        other._watch = copy(self._watch)
        return other

    # --- looking ------------------------------------------------------------------------------------------------

    def forced_tokens(self) -> list[int]:
        """Tokens of the text that must come next, as the tokenizer itself would write them; often [].

        Offered only as far as the tokenizer would write them whatever follows. Known strings are forced in their usual
        spelling: an escape would spell the same text.
        """
        if self._finished:
            return []
        if self._at.forced == -1:
            return []
        try:
            text, following = self._within(self._forced_text)
        except GrammarTooCostly:
            return []
        if not text or (self._watch is not None and not self._watch.is_clear(text)):
            return []
        return canonical_tokens(self._grammar.vocabulary, [past[3] for past in self._past], text, following)

    def _forced_text(self) -> tuple[bytes, set[int]]:
        place = self._tape.place() if self._tape is not None else None
        try:
            return forced_text(self._configs, self._at, self._tape)
        finally:
            if self._tape is not None and place is not None:
                self._tape.restore(place)

    def shortest_completion(self) -> Completion | None:
        """A text that finishes what was begun, as short as could be found, and the tokens to accept for it; None where
        the search gave up. Nothing is moved. Empty once the text may stop."""
        if self._finished:
            return Completion(b"", ())
        grammar = self._grammar
        try:
            found: Completion | None = self._within(
                shortest_completion, self._configs, self._at, self._tape, grammar.costs, self._watch
            )
        except GrammarTooCostly:
            return None
        return found

    @property
    def can_stop(self) -> bool:
        return self._finished or self._at.can_stop

    @property
    def is_finished(self) -> bool:
        if self._finished:
            return True
        if not self._at.can_stop:
            return False
        mask = self._at.mask
        if mask is None:
            try:
                mask = self._within(self._configs.mask_of, self._at)
            except GrammarTooCostly:  # the next mask will tell
                return False
        return bool(mask.empty and not mask.doubts)


def _bit(row: Row, token: int) -> bool:
    return bool(int(row[token >> 5]) >> (token & 31) & 1)
