"""Find the places of tokens in a text: the `text_offset` of log probabilities."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from sluicegate.plugins import TokenLogprob


def without_stripped_blank(spelled: str, text: str) -> str:
    """Return what the first token spells as it stands at the beginning of `text`, where decoders of sentencepiece strip
    a blank."""
    return spelled[1:] if spelled[:1] == " " and text[:1] not in ("", " ") else spelled


class TokenOffsets:
    """Offsets in one text, fed with the entries that leave beside its parts. Tokens may be parts of characters, bytes
    that are none, and first ones whose blank the text does not have; text without entries is passed over.

    Not covered: text without entries that holds the next token by chance.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        """From `_at` on."""
        self._at = 0

    def feed(self, text: str, entries: Sequence[TokenLogprob]) -> list[int]:
        """Return the offset of each of `entries`, in characters from the beginning of the text; a token that begins
        within a character has the character's."""
        self._text += text
        return [self._place(entry.data) for entry in entries]

    def _place(self, data: bytes) -> int:
        if self._decoder.getstate()[0] and data[:1] and data[0] & 0xC0 != 0x80:  # what was begun is no character
            self._pass_over(self._decoder.decode(b"", final=True))
            self._decoder.reset()
        spelled = self._decoder.decode(data)
        return self._pass_over(spelled if self._at else without_stripped_blank(spelled, self._text))

    def _pass_over(self, spelled: str) -> int:
        """Go on behind `spelled`, where it comes next; return where it begins."""
        begin = max(self._text.find(spelled), 0)
        end = begin + len(spelled)
        self._text, self._at = self._text[end:], self._at + end
        return self._at - len(spelled)
