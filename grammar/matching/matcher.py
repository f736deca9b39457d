"""The way of one sequence through a compiled grammar: masks, accepted tokens, and what must come."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from copy import copy
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np

from sluicegate.grammar.blocked.watch import Screens, Watch
from sluicegate.grammar.budget.meter import Allowance, WorkExhausted, current, tick
from sluicegate.grammar.completion import Completion, shortest_completion
from sluicegate.grammar.completion.costs import Costs
from sluicegate.grammar.matching.call_limits import READINGS_ASKED, CallLimits, placed, too_costly, too_deep
from sluicegate.grammar.matching.forced import canonical_tokens, forced_text
from sluicegate.grammar.matching.state import GuardedTokens, Mask, ParserState, ParserStates, ends_string
from sluicegate.grammar.reading.guards import DistinctKey
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import InLexeme
from sluicegate.grammar.reading.tape import Standing, Tape
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.string_tokens import IN_STRING, OUTSIDE
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import Mask as Row
from sluicegate.plugins.errors import GrammarLimit, GrammarTooCostly, TokenRejected

_FEW: Final = 8
"""Most readings that are followed without checking the clock."""
_NAMES_BACK = 100
"""Tokens by which an error looks back for the text being read."""


class SharedByMatchers(Protocol):
    """What the matchers of a grammar share, see `LazyGrammar`."""

    vocabulary: Vocabulary
    needs_text: bool
    new_tape: Callable[[], Tape]
    screens: Screens | None
    costs: Costs
    usual: CallLimits
    subject: str
    lock: Lock


class LazyMatcher:
    """One sequence's way through a grammar. Used by one thread at a time.

    Masks have `ceil(vocabulary.size / 32)` words; longer rows are filled up with zeros.
    """

    __slots__ = (
        "_at",
        "_bounds",
        "_finished",
        "_grammar",
        "_inert",
        "_lock",
        "_past",
        "_plain",
        "_states",
        "_tape",
        "_watch",
        "_words",
        "worked_s",
    )

    def __init__(self, grammar: SharedByMatchers, states: ParserStates, first: ParserState) -> None:
        self._grammar = grammar
        self._lock = grammar.lock
        self._bounds = grammar.usual
        self.worked_s = 0.0
        """CPU time of all calls that computed something new."""
        self._states = states
        self._at = first
        self._finished = False
        self._tape = grammar.new_tape() if grammar.needs_text else None
        vocabulary = states.vocabulary
        self._words, self._inert, self._plain = vocabulary.words, vocabulary.inert, vocabulary.plain
        self._past: list[tuple[ParserState, int, Standing | None, bool, int, Any]] = []
        """Before each token: the state, the tape's size and standing, whether it was finished; the token; the watch's
        spot."""
        self._watch = None
        if grammar.screens is not None and self._tape is not None:
            self._watch = Watch(grammar.screens, self._tape)

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        """Limit the CPU time of each later call of `fill_mask` and `accept`, which then raise `GrammarTooCostly` past
        `cpu_s`. Where this is never called, the limit is 2 s, and less than 50 ms of work that is charged for. A
        call that raises has changed nothing but what is remembered: it may be made again. What else is asked gives up
        at that time. See `CallLimits`."""
        self._bounds = CallLimits(cpu_s, wait, pause)

    def _within(self, act: Callable[..., Any], *arguments: object) -> Any:
        """Call `act(*arguments)` with the lock held: answers about a schema are tentative while its parts are being
        asked, and another thread would take them for final. Raises `GrammarTooCostly`, and what was worked out until
        then is kept; `GrammarLimit` where readings nest too deeply."""
        allowance, outer = self._begin()
        try:
            return act(*arguments)
        except (WorkExhausted, RecursionError, GrammarLimit) as error:
            raise self._explained(error) from None
        finally:
            self._end(allowance, outer)

    def _accept_within(self, token_id: int) -> ParserState | None:
        """Do `_within(self._states.accept, ...)`, which one token in seven needs, without a call by name."""
        allowance, outer = self._begin()
        try:
            return self._states.accept(self._at, token_id, self._tape)
        except (WorkExhausted, RecursionError, GrammarLimit) as error:
            raise self._explained(error) from None
        finally:
            self._end(allowance, outer)

    def _begin(self) -> tuple[Allowance, Token[Allowance | None]]:
        bounds = self._bounds
        if not self._lock.acquire(bounds.wait):
            # what is read is not asked for: that asks the grammar too
            raise too_costly(bounds, (), self._grammar.subject)
        # The error is made when it is raised: one for all would gather the frames of every call that raised it.
        allowance = Allowance(bounds.cpu_s, WorkExhausted, bounds.pause, bounds.charges, bounds.step, brief=True)
        return allowance, current.set(allowance)

    def _end(self, allowance: Allowance, outer: Token[Allowance | None]) -> None:
        current.reset(outer)
        self._lock.release()
        self.worked_s += allowance.spent_s()

    def _explained(self, error: Exception) -> Exception:
        """Return what to raise for an error inside a call."""
        current.set(None)  # what is read may have to be asked for
        if isinstance(error, WorkExhausted):
            return too_costly(self._bounds, self._reading(), self._grammar.subject)
        if isinstance(error, GrammarLimit):
            return placed(error, self._reading(), self._grammar.subject)
        return too_deep(self._reading(), self._grammar.subject)

    def _reading(self) -> tuple[Reading, ...]:
        """Return what is read now, or what was read last of what has a name."""
        latest = self._past[-_NAMES_BACK:]
        asked = 0
        for state in [self._at, *[past[0] for past in latest[::-1]]]:
            if any(reading.label() for reading in state.readings[:READINGS_ASKED]):
                return state.readings
            asked += len(state.readings)
            if asked > READINGS_ASKED:
                break
        return self._at.readings

    # --- masks --------------------------------------------------------------------------------------------------

    def fill_mask(self, row: Row) -> bool:
        """Overwrite `row` (int32, contiguous); True: the mask must be applied.

        After the end only end-of-sequence tokens are allowed. Raises `ValueError` for a row that is too short.
        """
        vocabulary = self._states.vocabulary
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
            mask = self._within(self._states.mask_of, self._at)
        kernels.put_row(row, mask.base, mask.ids)
        watch = self._watch
        if watch is None:
            if mask.doubts and not self._decided_by_names(mask.doubts, row):
                self._within(self._narrow, mask, row)
        elif mask.doubts or watch.both or not watch.spot.bare:
            self._within(self._narrow, mask, row)
        return True

    def _decided_by_names(self, doubts: tuple[GuardedTokens, ...], row: Row) -> bool:
        """Decide `doubts` that ask for new property names alone, without a look at the clock: it takes a few
        microseconds, and half of the masks of objects with free names ask. False where anything else is asked."""
        for doubt in doubts:
            if not doubt.direct or type(doubt.guards[0]) is not DistinctKey or not self._without_refused(doubt, row):
                return False
        return True

    def _narrow(self, mask: Mask, row: Row) -> None:
        """Narrow `row` to what the text so far leaves."""
        for doubt in mask.doubts:
            self._decide(doubt, row)
        watch = self._watch
        if watch is not None and (watch.both or not watch.spot.bare):
            watch.refuse_phrases(row)

    def _decide(self, doubt: GuardedTokens, row: Row) -> None:
        """Add those of the doubtful tokens that their guards allow."""
        tape = self._tape
        assert tape is not None
        if doubt.direct and self._without_refused(doubt, row):
            return
        allowed = [token for token in doubt.ids.tolist() if not _bit(row, token) and self._try(token)]
        if allowed:
            kernels.set_bits(row, np.array(allowed, np.int32))

    def _without_refused(self, doubt: GuardedTokens, row: Row) -> bool:
        """Add the tokens of `doubt`, which is direct, but for what its one guard refuses; False where it cannot say."""
        tape = self._tape
        assert tape is not None
        if len(doubt.guards) != 1:
            return False
        vocabulary = self._states.vocabulary
        known = vocabulary.strings.closing if tape.mode else vocabulary.strings.quoted
        refused = doubt.guards[0].refused(tape, known)
        if refused is None:
            return False
        _add_without(doubt.ids, [known[text] for text in refused if text in known], row)
        return True

    def _try(self, token: int) -> bool:
        tape = self._tape
        assert tape is not None
        tick()
        checkpoint = tape.checkpoint()
        try:
            word = self._words[token]
            return (self._again(token) or self._states.take(self._at, word, tape)) is not None
        finally:
            tape.restore(checkpoint)

    def _again(self, token_id: int) -> ParserState | None:
        """Return the state after a token where names were asked for here before and the answers are the same; then the
        token is on the tape. Otherwise None."""
        answered, tape = self._at.answered, self._tape
        known = answered.get(token_id) if answered is not None else None
        if known is None or tape is None:
            return None
        checkpoint = tape.checkpoint()
        if known.again(tape):
            return known.after
        tape.restore(checkpoint)
        return None

    # --- moving -------------------------------------------------------------------------------------------------

    def accept(self, token_id: int) -> None:
        """Advance over a token; raises `TokenRejected`, and then nothing has changed."""
        at = self._at
        known = at.tokens.get(token_id)
        if known is None and at.plain and 0 <= token_id < len(self._plain) and self._plain[token_id]:
            known = at
        if known is None or self._finished or self._watch is not None:
            self._accept_new(token_id)
            return
        tape = self._tape
        if tape is None:
            self._past.append((at, 0, None, False, token_id, None))
        else:
            self._past.append((at, len(tape.text), tape.standing(), False, token_id, None))
            self._push(tape, token_id)
        self._at = known

    def _push(self, tape: Tape, token_id: int) -> None:
        """Push the bytes of a token that is allowed."""
        mode, inert = tape.mode, self._inert[token_id]
        # without a bracket, the value that a tape of regions follows may end with any byte
        if (mode == 1 and inert & IN_STRING) or (mode == 0 and inert & OUTSIDE and tape.open is not None):
            tape.text += self._words[token_id]
        else:
            tape.push_all(self._words[token_id])

    def _accept_new(self, token_id: int) -> None:
        """Accept a token that nobody has accepted in this state before."""
        vocabulary = self._states.vocabulary
        if token_id in vocabulary.eos_token_ids:
            if not (self._finished or self._at.can_stop):
                raise TokenRejected(token_id, f"token {token_id} ends the sequence, but the value is not whole yet")
            self._remember(token_id)
            self._finished = True
            return
        word = self._words[token_id] if 0 <= token_id < len(self._words) else b""
        if not word or self._finished:
            raise TokenRejected(token_id)
        tape = self._tape
        if self._watch is not None:
            self._within(self._accept_watched, token_id, word)
            return
        at = self._at
        size, standing = self._place()
        after = self._again(token_id) if at.answered is not None else None
        if after is None and not ends_string(word, tape):
            after = self._stay(token_id, word)
        if after is None:
            try:
                after = self._accept_within(token_id)
                if after is None:
                    raise TokenRejected(token_id)
            except Exception:
                if tape is not None and standing is not None:
                    tape.go_back(size, standing)
                raise
        self._past.append((at, size, standing, False, token_id, None))
        self._at = after

    def _stay(self, token_id: int, word: bytes) -> ParserState | None:
        """Return the state after a token that stays inside the open string; then the token is on the tape. None where
        it does not. Does not look at the clock: it takes a few microseconds."""
        tape, lock, at = self._tape, self._lock, self._at
        readings = at.readings
        if (tape is not None and tape.mode != 1) or len(readings) > _FEW or type(readings[0]) is not InLexeme:
            return None
        if not lock.acquire(False):
            return None
        try:
            after = self._states.stay(at, word)
            if after is not None:
                after = self._states.after_token(after)
                at.keep_token(token_id, after)
                if tape is not None:
                    self._push(tape, token_id)
            return after
        finally:
            lock.release()

    def _accept_watched(self, token_id: int, word: bytes) -> None:
        tape, watch = self._tape, self._watch
        assert tape is not None
        assert watch is not None
        (size, standing), spot = tape.checkpoint(), watch.spot
        after = self._at.tokens.get(token_id)
        try:
            if after is not None:
                tape.push_all(word)
            else:
                after = self._again(token_id) or self._states.accept(self._at, token_id, tape)
            if after is None or not watch.move(word, tape, standing.since):
                raise TokenRejected(token_id)
        except Exception:
            tape.go_back(size, standing)
            watch.spot = spot
            raise
        self._past.append((self._at, size, standing, self._finished, token_id, spot))
        self._at = after

    def _remember(self, token_id: int) -> None:
        size, standing = self._place()
        spot = self._watch.spot if self._watch is not None else None
        self._past.append((self._at, size, standing, self._finished, token_id, spot))

    def _place(self) -> tuple[int, Standing | None]:
        tape = self._tape
        if tape is None:
            return 0, None
        return len(tape.text), tape.standing()

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted tokens. Raises `ValueError` if there are fewer."""
        if not 0 <= n <= len(self._past):
            raise ValueError(f"cannot roll back {n} tokens, {len(self._past)} were accepted")
        if n:
            self._at, size, standing, self._finished, _, spot = self._past[-n]
            del self._past[-n:]
            if self._tape is not None and standing is not None:
                self._tape.go_back(size, standing)
            if self._watch is not None:
                self._watch.spot = spot

    def fork(self) -> LazyMatcher:
        """Return an independent matcher in the same state; costs a copy of the list of accepted tokens."""
        other = LazyMatcher(self._grammar, self._states, self._at)
        other._bounds, other.worked_s, other._finished = self._bounds, self.worked_s, self._finished
        other._tape = self._tape.copy() if self._tape is not None else None
        other._past = self._past.copy()
        other._watch = copy(self._watch)
        return other

    # --- looking ------------------------------------------------------------------------------------------------

    def forced_tokens(self) -> list[int]:
        """Return the tokens of the text that must come next, as the tokenizer itself would write them; often [].

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
        return canonical_tokens(self._states.vocabulary, [past[4] for past in self._past], text, following)

    def _forced_text(self) -> tuple[bytes, set[int]]:
        checkpoint = self._tape.checkpoint() if self._tape is not None else None
        try:
            return forced_text(self._states, self._at, self._tape)
        finally:
            if self._tape is not None and checkpoint is not None:
                self._tape.restore(checkpoint)

    def shortest_completion(self) -> Completion | None:
        """Return a text that finishes what was begun, as short as could be found, and the tokens to accept for it. None
        where the search gave up. Moves nothing. Empty once the text may stop."""
        if self._finished:
            return Completion(b"", ())
        grammar = self._grammar
        try:
            found: Completion | None = self._within(
                shortest_completion, self._states, self._at, self._tape, grammar.costs, self._watch
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
                mask = self._within(self._states.mask_of, self._at)
            except GrammarTooCostly:  # the next mask will tell
                return False
        return bool(mask.empty and not mask.doubts)


def _add_without(ids: I32, refused: list[I32], row: Row) -> None:
    """Allow `ids` but for the tokens that are `refused`."""
    if refused:
        kernels.set_bits_except(row, ids, np.concatenate(refused))
    else:
        kernels.set_bits(row, ids)


def _bit(row: Row, token: int) -> bool:
    return bool(int(row[token >> 5]) >> (token & 31) & 1)
