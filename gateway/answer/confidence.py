"""The probability of each value of a JSON answer, from what the model thought of its tokens under the masks.

The probability of a value is that of its tokens, each among those that the mask allowed there, at temperature 1 and
before penalties: p(value | what stands before it). A forced token counts as 1. A token that reaches over the border of
a value counts for it; a number also needs the token that ends it. It is of the spelling that was drawn: another
spelling of the same value, with an escape or other tokens, is not added.

Of a value that the schema takes from a list (enum, const, boolean), the alternatives are told as far as the first token
that leaves the drawn value decides between them; `rest` is what it leaves open.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.gateway.answer.leaves import Leaf, leaves_of
from sluicegate.plugins import TokenStep
from sluicegate.safety import schemas_at

MOST_LEAVES = 1_000
MOST_CANDIDATES = 64
_DIGITS = 6


class DrawnTokens(NamedTuple):
    """The tokens of one choice: `starts[i]` is where token i begins, in bytes of `text`."""

    steps: Sequence[TokenStep]
    text: bytes
    starts: Sequence[int]


def drawn_of(steps: Sequence[TokenStep]) -> DrawnTokens:
    starts, at = [], 0
    for step in steps:
        starts.append(at)
        at += len(step.data)
    return DrawnTokens(steps, b"".join([step.data for step in steps]), starts)


def values_of(drawn: DrawnTokens, text: str, begins: int, schema: Any) -> list[dict[str, Any]]:
    """Describe the leaves of `text`, which stands in `drawn` from byte `begins` on. A value whose tokens were not all
    described is left out."""
    found: list[dict[str, Any]] = []
    offsets = _byte_offsets(text)
    for leaf in leaves_of(text)[:MOST_LEAVES]:
        start, end = begins + offsets[leaf.start], begins + offsets[leaf.end]
        if isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool):
            end += 1
        described = _described(drawn, leaf, start, end, schema)
        if described is not None:
            found.append(described)
    return found


def _described(drawn: DrawnTokens, leaf: Leaf, start: int, end: int, schema: Any) -> dict[str, Any] | None:
    first = max(0, bisect_right(drawn.starts, start) - 1)
    steps = [
        (step, at)
        for step, at in zip(drawn.steps[first:], drawn.starts[first:], strict=True)
        if at < end and at + len(step.data) > start
    ]
    if not steps or any(step.law is None for step, _ in steps):
        return None
    law = sum(step.law or 0.0 for step, _ in steps)
    found: dict[str, Any] = {
        "pointer": leaf.pointer,
        "probability": _shown(law),
        "tokens": len(steps),
        "forced": sum(step.forced for step, _ in steps),
    }
    candidates = _candidates(schema, leaf)
    if len(candidates) > 1:
        found |= _alternatives(drawn, steps, start, leaf, candidates, law)
    return found


def _candidates(schema: Any, leaf: Leaf) -> dict[str, Any]:
    """Return the values that may stand there, by JSON text; empty where the schema names no list of them."""
    listed: list[dict[str, Any]] = []
    for part in schemas_at(schema, leaf.path):
        if not isinstance(part, Mapping):
            return {}
        if "enum" in part or "const" in part:
            values = part["enum"] if "enum" in part else [part["const"]]
            listed.append({json.dumps(value, ensure_ascii=False): value for value in values if _is_scalar(value)})
        elif part.get("type") == "boolean":
            listed.append({"true": True, "false": False})
    if not listed or len(listed[0]) > MOST_CANDIDATES:
        return {}
    return {text: value for text, value in listed[0].items() if all(text in others for others in listed)}


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _alternatives(
    drawn: DrawnTokens,
    steps: Sequence[tuple[TokenStep, int]],
    start: int,
    leaf: Leaf,
    candidates: Mapping[str, Any],
    law: float,
) -> dict[str, Any]:
    """Follow the drawn tokens; where another token was possible that only one candidate goes on with, its mass is that
    candidate's."""
    own = json.dumps(leaf.value, ensure_ascii=False)
    masses = {own: math.exp(law)}
    reached = 0.0
    for step, at in steps:
        before = drawn.text[start:at] if at > start else b""
        head = drawn.text[at:start] if at < start else b""
        for data, value in step.likely:
            if data != step.data and data.startswith(head):
                written = (before + data[len(head) :]).decode("utf-8", "ignore")
                fits = [text for text in candidates if text.startswith(written) or written.startswith(text)]
                if written and len(fits) == 1:
                    masses[fits[0]] = masses.get(fits[0], 0.0) + math.exp(reached + value)
        reached += step.law or 0.0
    told = [
        {"value": candidates[text], "probability": round(min(1.0, mass), _DIGITS)}
        for text, mass in sorted(masses.items(), key=lambda pair: -pair[1])
        if text in candidates
    ]
    rest = max(0.0, 1.0 - sum(masses.values()))
    return {"alternatives": told, "rest": round(rest, _DIGITS)}


def _shown(law: float) -> float:
    return round(math.exp(min(0.0, law)), _DIGITS)


def _byte_offsets(text: str) -> Sequence[int]:
    if text.isascii():
        return range(len(text) + 1)
    offsets = [0]
    for char in text:
        offsets.append(offsets[-1] + len(char.encode("utf-8", "surrogatepass")))
    return offsets
