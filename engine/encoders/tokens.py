"""Tokenise texts and pairs for an encoder: whole, cut where the operator says so, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins import ContextLengthExceeded, RequestError

CHARS_PER_TOKEN = 64
"""A text of more characters than this for each token that the model can read is refused, or cut, before it is
tokenised."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One text, or a pair, as a model reads it. `segments`: 0 or 1 for each token, where the model wants to know."""

    ids: Sequence[int]
    segments: Sequence[int] | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class TextReader:
    """`backend`: a tokenizer of `tokenizers` without truncation or padding of its own."""

    backend: Any
    name: str
    most: int
    """Most tokens that the model reads."""
    vocab_size: int
    truncate: bool = False
    has_segments: bool = False
    lower_case: bool = False
    prompt: str = ""

    def text(self, text: str, at: int) -> TokenRow:
        """Return the row of a text. Raises `RequestError`, or `ContextLengthExceeded` where it is too long."""
        return self._row(f"text {at}", (self._clean(self.prompt + text),))

    def pair(self, query: str, text: str, at: int) -> TokenRow:
        """Return the row of a query and a document, of which the document may be cut. Raises the same."""
        return self._row(f"document {at} with the query", (self._clean(query), self._clean(text)))

    def ids(self, ids: Sequence[int], at: int) -> TokenRow:
        """Return a row of token ids as they are. Raises the same."""
        if not ids:
            raise RequestError(f"text {at} has no tokens; send at least one", param="input")
        if not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise RequestError(f"token ids of text {at} must lie between 0 and {self.vocab_size - 1}", param="input")
        if len(ids) > self.most and not self.truncate:
            raise self._too_long(f"text {at}", str(len(ids)))
        return TokenRow(ids[: self.most], cut=len(ids) > self.most)

    def _clean(self, text: str) -> str:
        return text.strip().lower() if self.lower_case else text.strip()

    def _row(self, what: str, texts: tuple[str, ...]) -> TokenRow:
        longest = self.most * CHARS_PER_TOKEN
        if any(len(text) > longest for text in texts) and not self.truncate:
            raise self._too_long(what, f"more than {self.most}")
        cut = any(len(text) > longest for text in texts)
        found = self.backend.encode(*(text[:longest] for text in texts))
        if not found.ids:
            raise RequestError(f"{what} has no tokens; send at least one", param="input")
        kept = range(len(found.ids))
        if len(found.ids) > self.most:
            if not self.truncate:
                raise self._too_long(what, str(len(found.ids)))
            kept, cut = self._kept(what, found.sequence_ids, len(texts) - 1), True
        segments = [found.type_ids[i] for i in kept] if self.has_segments else None
        return TokenRow([found.ids[i] for i in kept], segments, cut)

    def _kept(self, what: str, sequences: Sequence[int | None], last: int) -> Any:
        """Return the indices of tokens that stay when sequence `last` is cut at its end. Raises `ContextLengthExceeded`
        if the rest alone is too long."""
        own = [i for i, sequence in enumerate(sequences) if sequence == last]
        surplus = len(sequences) - self.most
        if surplus >= len(own):
            raise self._too_long(f"{what}: the query alone", str(len(sequences) - len(own)))
        gone = set(own[len(own) - surplus :])
        return [i for i in range(len(sequences)) if i not in gone]

    def _too_long(self, what: str, tokens: str) -> ContextLengthExceeded:
        return ContextLengthExceeded(
            f"{what} has {tokens} tokens; model {self.name!r} reads {self.most}: shorten it, or let the operator set "
            "`truncate` for this model",
            param="input",
        )
