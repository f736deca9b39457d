"""Encodes many texts that share most of their pieces: each piece is put into tokens once and looked up after that.

A tokenizer's own splitting and merging is four fifths of the work of making a row; a language of few thousand words
asks it for the same pieces again and again.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import regex

_KEPT = 200_000  # pieces; made-up names never end


class Encoder:
    """The ids that a tokenizer of `training.tokenizer` gives, special tokens included. Not for tokenizers in general:
    pieces must come from one pattern alone."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        described = json.loads(self._backend.to_str())
        splitting = described["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        special = "|".join(regex.escape(token["content"]) for token in described["added_tokens"])
        self._pieces = regex.compile(f"{special}|{splitting}").findall
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> list[int]:
        """Return the tokens of `text`, without any that a template would add."""
        pieces, known, found = self._pieces(text), self._known, list[int]()
        if sum(map(len, pieces)) != len(text):  # a letter of no case that the pattern knows
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        for piece in pieces:
            ids = known.get(piece)
            found += self._looked_up(piece) if ids is None else ids
        return found

    def _looked_up(self, piece: str) -> tuple[int, ...]:
        if len(self._known) >= _KEPT:
            self._known.clear()
        ids = self._known[piece] = tuple(self._backend.encode(piece, add_special_tokens=False).ids)
        return ids


@cache
def encoder_of(tokenizer: Any) -> Encoder:
    """Return the encoder of a tokenizer, the same one for the same tokenizer."""
    return Encoder(tokenizer)
