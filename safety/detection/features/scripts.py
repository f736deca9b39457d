"""Scripts that are written without spaces, by code point: where a word ends in them, and where one may begin."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

_KANA, _KATAKANA, _SOUTHERN, _HAN = range(1, 5)
_RANGES = (
    (0x0E00, 0x0EFF, _SOUTHERN),
    (0x1000, 0x109F, _SOUTHERN),
    (0x1780, 0x17FF, _SOUTHERN),
    (0x3005, 0x3007, _HAN),
    (0x3041, 0x309F, _KANA),
    (0x30A0, 0x30FF, _KATAKANA),
    (0x31F0, 0x31FF, _KATAKANA),
    (0x3400, 0x9FFF, _HAN),
    (0xF900, 0xFAFF, _HAN),
    (0x20000, 0x3FFFF, _HAN),
)
"""(first, last, script): Thai, Lao, Burmese and Khmer; kana; Chinese characters. Hangul has spaces."""
WITHOUT_SPACES = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in _RANGES) + "]+")


def joints(script: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return [len(script) + 1] where words meet without a space between them: at each Chinese character, and where a
    script without spaces meets another."""
    found = np.zeros(len(script) + 1, dtype=np.bool_)
    found[1:-1] = (script[1:] != script[:-1]) | (script[1:] == _HAN)
    return found


def scripts_of(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Return [len(codes)] the script of each character that is written without spaces; 0 for all others."""
    script = np.zeros(len(codes), dtype=np.uint8)
    if (codes >= _RANGES[0][0]).any():
        for first, last, name in _RANGES:
            script[(codes >= first) & (codes <= last)] = name
    return script
