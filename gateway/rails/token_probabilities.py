"""Release log probabilities of tokens that spell released text.

A token's entry leaves with the text that it spells, once that has left untouched: it then says what the client has
anyway. Bytes that are no UTF-8 stand for U+FFFD, as in the text. Entries that do not join to the text are left out:
special tokens, which have none. A likely alternative is a text of its own: it
leaves where no rail objects to it alone, behind the text before it, or behind the alternatives of the same rank before
it; a rail that cannot tell at once (it has no `clears`) lets none leave. Where no rail acts, all leave.

Not covered: what alternatives say when they are read in another order than by rank.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluicegate.gateway.answer.token_offsets import without_stripped_blank
from sluicegate.plugins import TokenLogprob
from sluicegate.safety import Redaction

CONTEXT = 64
"""Characters before an alternative that are decoded with it."""
LONGEST = 256
"""Most bytes of an alternative; no tokenizer has longer tokens."""
_APART = "\n\u2603\n"  # no rule reads across it
Top = tuple[tuple[int, str, bytes, float], ...]


@dataclass(frozen=True, slots=True)
class _EntrySpan:
    """An entry, and the characters [start, end) of the text that its bytes are, or are part of."""

    start: int
    end: int
    entry: TokenLogprob


class TokenProbabilities:
    """Log probabilities of one text, fed as its window is. `clears`: whether the rails pass a text whole; None: no rail
    acts."""

    def __init__(self, clears: Callable[[str], bool] | None, lead: str = "") -> None:
        """Begin an empty text. `lead` is the text that it continues."""
        self._clears = clears
        self._waiting: deque[TokenLogprob] = deque()
        self._placed: deque[_EntrySpan] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # of the bytes that are placed
        self._text = ""  # behind what is placed
        self._joined = 0  # characters whose last byte is placed
        self._is_first = True  # nothing is placed
        self._before = lead[-CONTEXT:]  # the end of what is placed and left
        self._columns: list[str] = []  # the end of the alternatives that left, by rank
        self._lost = False

    def feed(self, text: str, entries: Sequence[TokenLogprob]) -> None:
        if self._lost:
            return
        self._waiting.extend(entries)
        self._text += text
        while self._waiting:
            before = self._decoder.getstate()
            spelled = self._spelled(self._waiting[0].data)
            if self._text.startswith(spelled):
                self._place(self._waiting.popleft(), spelled)
                continue
            self._decoder.setstate(before)
            if spelled.startswith(self._text):
                return
            self._waiting.popleft()

    def release(self, clear_to: int, redactions: Sequence[Redaction]) -> tuple[TokenLogprob, ...]:
        """Return the entries of characters before `clear_to` that no redaction overlaps."""
        found: list[TokenLogprob] = []
        while self._placed and self._placed[0].end <= clear_to:
            placed = self._placed.popleft()
            if any(r.start < placed.end and placed.start < r.end for r in redactions):
                self._before, self._columns = "", []
            else:
                found.append(self._fit(placed.entry))
        return tuple(found)

    def drop(self) -> None:
        """Drop all entries of the text, now and later."""
        self._placed.clear()
        self._lose()

    def _lose(self) -> None:
        self._lost, self._text = True, ""
        self._waiting.clear()

    def _spelled(self, data: bytes) -> str:
        """Return the characters that end with `data`."""
        spelled = self._decoder.decode(data)
        return without_stripped_blank(spelled, self._text) if self._is_first else spelled

    def _place(self, entry: TokenLogprob, spelled: str) -> None:
        start = self._joined
        self._joined += len(spelled)
        self._text = self._text[len(spelled) :]
        self._is_first = False
        is_within = bool(self._decoder.getstate()[0])  # of a character that later bytes end
        self._placed.append(_EntrySpan(start, self._joined + is_within, entry))

    def _fit(self, entry: TokenLogprob) -> TokenLogprob:
        if self._clears is None:
            return entry
        token = _written(entry.data)
        if entry.top:
            entry = replace(entry, top=self._passing(entry.top, entry.data, self._clears))
        self._before = (self._before + token)[-CONTEXT:]
        return entry if entry.token == token else replace(entry, token=token)

    def _passing(self, top: Top, own: bytes, clears: Callable[[str], bool]) -> Top:
        columns = self._columns + [""] * (len(top) - len(self._columns))
        texts = [_written(data) for _, _, data, _ in top]
        asked = [
            () if data == own and not column else (text, self._before + text, (column or self._before) + text)
            for (_, _, data, _), text, column in zip(top, texts, columns, strict=False)
        ]
        together = _APART.join([text for texts_of_one in asked for text in texts_of_one])
        fit = not together or clears(together)
        passing = [
            len(data) <= LONGEST and (fit or all(map(clears, ways)))
            for (_, _, data, _), ways in zip(top, asked, strict=True)
        ]
        self._columns = [  # one that has the text's own tokens alone is the text, which is looked behind anyway
            ((column or self._before) + text)[-CONTEXT:] if passes and ways else ""
            for column, text, passes, ways in zip(columns, texts, passing, asked, strict=False)
        ]
        return tuple(
            (token_id, text, data, logprob)
            for (token_id, _, data, logprob), text, passes in zip(top, texts, passing, strict=True)
            if passes
        )


def _written(data: bytes) -> str:
    return data.decode("utf-8", "replace")
