"""How special tokens are spelled where a grammar names them: in bytes that are no text."""

from __future__ import annotations

import re

MARK = b"\xff"
"""A byte that UTF-8 never has: no lexeme of text accepts it."""
_DIGITS = 4
_WORD = re.compile(MARK + rb"[\x80-\xbf]{%d}" % _DIGITS)


def special_word(token: int) -> bytes:
    """Return the bytes of a token, as many for each, none of them ASCII."""
    return MARK + bytes([0x80 | token >> 6 * place & 0x3F for place in reversed(range(_DIGITS))])


def without_special(text: bytes) -> bytes:
    """Leave out the special tokens that `text` spells."""
    return _WORD.sub(b"", text) if MARK in text else text
