"""Make a grammar smaller for as long as one of its calls stays as slow, or ends as wrongly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.masks import Encode
from benchmarks.timed_calls import Drawn, TimedCall, calls_of
from sluicegate.grammar import Vocabulary
from sluicegate.grammar.budget.clock import worked_s

_SHRINKS = 40
_SHRINK_S = 15.0
"""CPU time for making one grammar smaller."""
_IN_JSON = ("schema", "any order", "tags")
_ALIKE = 30
"""Characters by which errors are told apart."""


def shrunk(drawn: Drawn, vocabulary: Vocabulary, encode: Encode, seed: int, wrong: str, most_ms: float) -> str:
    """Return a smaller grammar with a call that takes more than `most_ms`, or that ends as `wrong` says."""
    until, grammar = worked_s() + _SHRINK_S, drawn.grammar
    for _ in range(_SHRINKS):
        for candidate in smaller(drawn.kind, grammar):
            if worked_s() > until:
                return grammar
            if _is_alike(Drawn(drawn.kind, candidate, drawn.lead), vocabulary, encode, seed, wrong, most_ms):
                grammar = candidate
                break
        else:
            break
    return grammar


def _is_alike(drawn: Drawn, vocabulary: Vocabulary, encode: Encode, seed: int, wrong: str, most_ms: float) -> bool:
    """Return whether it is as slow or as wrong twice."""
    for _ in range(2):
        call = worst(calls_of(drawn, vocabulary, encode, seed))
        if call is None or call.wrong[:_ALIKE] != wrong[:_ALIKE] or not (call.wrong or call.ms > most_ms):
            return False
    return True


def worst(calls: list[TimedCall] | None) -> TimedCall | None:
    """Return the call that ended as none may, or the slowest one."""
    return max(calls or (), key=lambda call: (bool(call.wrong), call.ms), default=None)


def smaller(kind: str, grammar: str) -> Iterator[str]:
    """Yield the grammar with something left out."""
    if kind in _IN_JSON:
        yield from (json.dumps(each) for each in _parts_left_out(json.loads(grammar)))
        return
    lines = grammar.split("\n")
    yield from ("\n".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines) - 1, 0, -1))
    for way in re.finditer(r" \| [^|\n()]+| [^|\n() ]+(?= )|[?*+](?=\n| )", grammar):
        yield grammar[: way.start()] + grammar[way.end() :]


def _parts_left_out(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield {key: each for key, each in value.items() if key != name}
            yield from ({**value, name: each} for each in _parts_left_out(value[name]))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
            yield from ([*value[:at], each, *value[at + 1 :]] for each in _parts_left_out(value[at]))
