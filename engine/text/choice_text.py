"""Convert a choice's tokens to pieces: text past the hold-back of stop strings, with its tokens."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from sluicegate.engine.text.detokenizer import TextStream
from sluicegate.engine.text.stopping import StopChecker
from sluicegate.plugins import ClosedBy, FinishReason, Piece, TokenLogprob


class _Placed(NamedTuple):
    """A token, and the span [begin, end) of decoded characters that became final with it."""

    token_id: int
    logprob: TokenLogprob | None
    begin: int
    end: int


class ChoiceText:
    """Converts tokens to pieces. A token is released together with the end of its text, so ids and logprobs match the
    text."""

    __slots__ = ("_decoded", "_held", "_ids", "_logprobs", "_parts", "_released", "_stream", "_text", "_watch", "index")

    def __init__(self, index: int, stream: TextStream, watch: StopChecker, *, by_token: bool = False) -> None:
        """Begin a choice. `by_token`: pieces of several tokens say in `joined` which text became final with which, so
        that how many tokens a step appended makes no difference."""
        self.index = index
        self._stream = stream
        self._watch = watch
        self._held: deque[_Placed] = deque()
        self._decoded = 0
        self._released = 0
        self._text: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._parts = PieceParts() if by_token else None

    def feed(self, token_id: int, logprob: TokenLogprob | None, *, may_stop: bool = True) -> bool:
        """Add a token; return True if a stop string is now complete. Text from the stop string on is dropped."""
        text = self._stream.feed(token_id)
        if self._watch.is_idle:  # nothing can be held: most requests, at every token
            self._ids.append(token_id)
            if logprob is not None:
                self._logprobs.append(logprob)
            if text:
                self._text.append(text)
            if self._parts is not None:
                self._parts.add(len(text), is_final=True)
            return False
        self._held.append(_Placed(token_id, logprob, self._decoded, self._decoded + len(text)))
        self._decoded += len(text)
        ready, stopped = self._watch.feed(text) if may_stop else (self._watch.close() + text, False)
        self._release(ready)
        if self._parts is not None:
            self._parts.add(len(ready), is_final=bool(ready))
        return stopped

    @property
    def waiting(self) -> int:
        """Return how many tokens were fed whose text waits for later tokens. 0 unless `by_token`."""
        return 0 if self._parts is None else self._parts.waiting

    @property
    def is_direct(self) -> bool:
        """Return whether there are no stop strings, so that text is final as soon as it is decoded."""
        return self._watch.is_idle

    def pass_on(self, token_id: int) -> Piece:
        """Feed a token and return its piece at once. Only if `is_direct`, and after a `piece` call for the token
        before."""
        return Piece(self.index, self._stream.feed(token_id), (token_id,))

    def piece(self) -> Piece | None:
        """Return the text and tokens that became final since the last piece; None if there are none."""
        ready = 0
        for count, placed in enumerate(self._held, 1):
            if placed.end > self._released:
                break
            if placed.begin < placed.end:  # one without text yet waits for the next: it may be a stop string's
                ready = count
        for _ in range(ready):
            self._let_go(self._held.popleft())
        return self._piece(None) if self._ids or self._text else None

    def last_piece(self, reason: FinishReason, *, stopped: bool, closed: ClosedBy = "") -> Piece:
        """Return the piece that ends the choice. If `stopped`, tokens that lie wholly in the stop string are left
        out."""
        if not stopped:
            tail = self._stream.close(cut=reason == "length")
            ready, found = self._watch.feed(tail)
            self._release(ready + ("" if found else self._watch.close()))
        for placed in self._held:
            if not stopped or placed.begin < self._released:
                self._let_go(placed)
        return self._piece(reason, closed=closed)

    def _release(self, text: str) -> None:
        self._released += len(text)
        if text:
            self._text.append(text)

    def _let_go(self, placed: _Placed) -> None:
        self._ids.append(placed.token_id)
        if placed.logprob is not None:
            self._logprobs.append(placed.logprob)

    def _piece(self, reason: FinishReason | None, *, closed: ClosedBy = "") -> Piece:
        text, ids, logprobs = self._text, self._ids, self._logprobs
        self._text, self._ids = [], []
        if logprobs:
            self._logprobs = []
        said = "".join(text), tuple(ids), tuple(logprobs)
        joined = () if self._parts is None else self._parts.take(len(said[0]), last=reason is not None)
        return Piece(self.index, *said, reason, closed=closed, stopped_by=self._watch.found, joined=joined)


class PieceParts:
    """Characters and tokens of the parts of a piece: one for each token that made text final."""

    __slots__ = ("_parts", "_size", "waiting")

    def __init__(self) -> None:
        self._parts: list[tuple[int, int]] = []
        self._size = 0
        self.waiting = 0
        """Tokens since the last one that made text final."""

    def add(self, size: int, *, is_final: bool) -> None:
        """Add a token that made `size` characters final. Not `is_final`: it counts with the next one that is."""
        self.waiting += 1
        if is_final:
            self._parts.append((size, self.waiting))
            self._size, self.waiting = self._size + size, 0

    def take(self, size: int, *, last: bool) -> tuple[tuple[int, int], ...]:
        """Take the parts of a piece of `size` characters; () if it is one. The `last` one has the tokens that wait."""
        parts, rest = self._parts, size - self._size
        if last and (rest or self.waiting):
            parts.append((rest, self.waiting))
            self.waiting = 0
        self._parts, self._size = [], 0
        return tuple(parts) if len(parts) > 1 else ()
