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
    return tuple(dict.fromkeys([*map(str, tokenizer.all_special_tokens), *_added(tokenizer)]))


@lru_cache(maxsize=8)
def _added(tokenizer: Any) -> tuple[str, ...]:
    found = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return tuple(str(token.content) for token in found.values() if token.special)


def defused(text: str, tokens: Iterable[str]) -> str:
    """Return `text` with a blank after the first character of each of `tokens` in it."""
    present = [token for token in tokens if len(token) > 1 and token in text]
    while present:
        pattern = "|".join(re.escape(token) for token in sorted(present, key=len, reverse=True))
        text = re.sub(pattern, lambda found: f"{found[0][0]} {found[0][1:]}", text)
        present = [token for token in present if token in text and " " not in token]  # one may overlap another
    return text
