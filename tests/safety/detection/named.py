"""Concepts that a text names, as words."""

from __future__ import annotations

import re

import numpy as np

from sluicegate.safety.detection.features import concepts, scripts
from sluicegate.safety.detection.normalise import fold


def named(text: str) -> list[str]:
    """Return them in order. Words are found with the standard library's `re`, combining marks as parts of them."""
    text = fold(text)
    codes = np.array([ord("0") if char in "0123456789" else ord(char) for char in text], dtype=np.uint64)
    bounds = np.array([found.span() for found in re.finditer(r"[\w'\u0300-\u0e7f]+", text)], dtype=np.int64).reshape(
        -1, 2
    )
    spans = concepts.Spans(codes)
    begin, end = bounds[:, 0], bounds[:, 1]
    part = np.zeros(len(text) + 1, dtype=np.int64)
    unspaced = np.flatnonzero(scripts.scripts_of(codes))
    _, found = concepts.places(spans, spans.hashes(begin, end), begin, end, part, unspaced)
    return [concepts.listed().names[one] for one in found]
