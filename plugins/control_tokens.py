"""Break up the control tokens that a tokenizer would read in a text, so that no text ends its own turn.

Not covered: marks that are ordinary text to the tokenizer, such as `User:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any


def control_tokens(tokenizer: Any) -> tuple[str, ...]:
    """Return the texts that `tokenizer` reads as control tokens: those that it names, and all others that its
    vocabulary marks as special (Llama 3 names two of its 256)."""
    return _joined(tuple(map(str, tokenizer.all_special_tokens)), _added(tokenizer))


@lru_cache(maxsize=8)
def _joined(named: tuple[str, ...], added: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*named, *added]))


@lru_cache(maxsize=8)
def _added(tokenizer: Any) -> tuple[str, ...]:
    found = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return tuple(str(token.content) for token in found.values() if token.special)


def defused(text: str, tokens: Iterable[str]) -> str:
    """Return `text` with a blank after the first character of each of `tokens` in it."""
    present = _present(text, tuple(tokens))
    while present:
        pattern = "|".join(re.escape(token) for token in sorted(present, key=len, reverse=True))
        text = re.sub(pattern, lambda found: f"{found[0][0]} {found[0][1:]}", text)
        present = [token for token in present if token in text and " " not in token]  # one may overlap another
    return text


def _present(text: str, tokens: tuple[str, ...]) -> list[str]:
    """Return those of `tokens` of two characters and more that `text` holds. Gemma has 6,249 of them: to search for
    each takes longer than to tokenise the text."""
    index = _index(tokens)
    if index is None:
        return []
    heads, by_head = index
    found = set()
    for begin in heads.finditer(text):
        known, sizes = by_head[begin[1]]
        found |= {part for size in sizes if (part := text[begin.start() : begin.start() + size]) in known}
    return [token for token in tokens if token in found] if found else []


_Index = tuple[re.Pattern[str], dict[str, tuple[frozenset[str], tuple[int, ...]]]]


@lru_cache(maxsize=32)
def _index(tokens: tuple[str, ...]) -> _Index | None:
    """Return what finds the first two characters of any of `tokens`, overlapping ones too, and by these the tokens and
    their lengths; None if none has two."""
    by_head: dict[str, set[str]] = {}
    for token in tokens:
        if len(token) > 1:
            by_head.setdefault(token[:2], set()).add(token)
    if not by_head:
        return None
    heads = re.compile(f"(?=({'|'.join(map(re.escape, by_head))}))")
    sized = {head: (frozenset(known), tuple(sorted({*map(len, known)}))) for head, known in by_head.items()}
    return heads, sized
