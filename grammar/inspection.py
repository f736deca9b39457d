"""Why a mask takes as long as it does: a text followed token by token, with the time of each part of the package.

Times are CPU time under Python's profiler, which makes Python code about twice as slow as it is otherwise and leaves
compiled loops as they are: compare the parts of a step with one another, and steps with steps.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sluicegate.grammar.matching.grammar import LazyGrammar

_ROOT = Path(__file__).parent
_PARTS = {
    "automata": "automata",
    "blocked": "blocklist",
    "budget": "automata",
    "classification": "tries",
    "completion": "completion",
    "json/duplicates": "guards",
    "json/existentials": "guards",
    "lark": "parser",
    "lexemes": "automata",
    "matching/forced": "completion",
    "reading/guards": "guards",
    "reading/lookahead": "guards",
    "reading/region_tape": "guards",
    "reading/tape": "guards",
    "schema": "schema",
    "tags": "tags",
    "vocabulary": "tries",
}
"""Names of parts by folder, or by module where a folder holds several."""


@dataclass(frozen=True, slots=True)
class MaskStep:
    """One token and the mask before it. `parts`: seconds by part of the package; `allowed`: tokens that the mask
    leaves; `readings`: ways to understand the text so far; `made`: memory blocks that the step left behind."""

    token_id: int
    token: bytes
    readings: int
    allowed: int
    mask_s: float
    accept_s: float
    parts: dict[str, float]
    made: int


def inspect(compiled: LazyGrammar, token_ids: Iterable[int]) -> Iterator[MaskStep]:
    """Fill the mask before each token, then accept it. Raises `TokenRejected` at the first token that is refused."""
    matcher, vocabulary = compiled.matcher(), compiled.vocabulary
    row = np.zeros(vocabulary.row_words, np.int32)
    for token_id in token_ids:
        readings = len(matcher._at.readings)
        blocks = sys.getallocatedblocks()
        profile = cProfile.Profile(time.thread_time, builtins=False)
        mask_s = _timed(profile, lambda: matcher.fill_mask(row))
        allowed = int(np.bitwise_count(row.view(np.uint32)).sum())
        accept_s = _timed(profile, lambda token_id=token_id: matcher.accept(token_id))  # type: ignore[misc]
        made = sys.getallocatedblocks() - blocks
        word = vocabulary.words[token_id]
        yield MaskStep(token_id, word, readings, allowed, mask_s, accept_s, _parts(profile), made)


def _timed(profile: cProfile.Profile, act: Callable[[], object]) -> float:
    began = time.thread_time()
    profile.enable()
    try:
        act()
    finally:
        profile.disable()
    return time.thread_time() - began


def _parts(profile: cProfile.Profile) -> dict[str, float]:
    found: Counter[str] = Counter()
    for (file, _, _), (_, _, own_s, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if own_s > 0:
            found[part_of(file)] += own_s
    return dict(found.most_common())


def part_of(file: str) -> str:
    """Return the part of the package a source file belongs to; `frames` = modules on the structure of values."""
    try:
        inside = Path(file).relative_to(_ROOT)
    except ValueError:
        return "other"
    module = inside.with_suffix("").as_posix()
    return _PARTS.get(module) or _PARTS.get(inside.parts[0], "frames")
