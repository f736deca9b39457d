"""Check the hold-back invariants exhaustively for small sizes: every text over a small alphabet, every assignment of
its characters to channels, every cut into pieces, every pattern up to a size, after every lead up to a size.

    python -m benchmarks.holdback_proof                # about ten minutes of one core
    python -m benchmarks.holdback_proof --limit 4      # what the tests run

Checked are: what a client can join of a channel is what the verdict on the whole text allows, at every step and at the
end; the outcome is the same for every cut; and no character is held that can no longer become part of a match. The
expected results are computed here from the texts alone, by trying continuations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Literal

from benchmarks import common
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.plugins import Caller, Channel, Message, Piece, Request
from sluicegate.safety import MatchPolicy, MatchRail, compile_patterns

Action = Literal["redact", "block"]
Outcome = tuple[tuple[str, str], str | None]
"""What was joined of content and thoughts, and how the choice ended."""
CHANNELS: tuple[Channel, Channel] = ("content", "reasoning")
REQUEST = Request(id="r", model="m", messages=(Message("user", "hi"),))
HIDDEN = "#"


@dataclass(frozen=True)
class Case:
    patterns: tuple[str, ...]
    action: Action
    text: str
    schedule: tuple[int, ...]
    """For each character its channel."""
    lead: str = ""
    """What the client sent, and joins each channel to."""


class InvariantViolated(Exception):
    """Raised when an invariant does not hold; the message is the case."""


def tried(letters: str, length: int, size: int, together: int = 1, lead: int = 0) -> int:
    """Try all streams of these sizes, and return their number. Raises `InvariantViolated` at the first that violates an
    invariant."""
    count = 0
    leads = ["".join(word) for n in range(1, lead + 1) for word in product(letters, repeat=n)] or [""]
    words = ["".join(word) for n in range(1, size + 1) for word in product(letters, repeat=n)]
    for patterns in _sets(words, together):
        for action in ("redact", "block"):
            rail = MatchRail("r", compile_patterns({p: p for p in patterns}), MatchPolicy(action, replacement=HIDDEN))
            for text in map("".join, product(letters, repeat=length)):
                for schedule, before in product(product((0, 1), repeat=length), leads):
                    count += _try(Case(patterns, action, text, schedule, before), rail, letters)
    return count


def _sets(words: Sequence[str], together: int) -> Iterator[tuple[str, ...]]:
    yield from ((word,) for word in words)
    if together > 1:
        yield from ((a, b) for n, a in enumerate(words) for b in words[n + 1 :])


def _try(case: Case, rail: MatchRail, letters: str) -> int:
    expected = _allowed(case, letters)
    count = 0
    for pieces in _cuttings(case):
        count += 1
        if (found := _streamed(case, rail, pieces, letters)) != expected:
            raise InvariantViolated(f"{case} cut as {pieces}: {found}, expected {expected}")
    return count


def _cuttings(case: Case) -> Iterator[list[tuple[int, str]]]:
    """Yield every way to cut a case, as (channel, text) by piece. Every switch of channel is a cut, and every set of
    other places may be."""
    inside = range(1, len(case.text))
    forced = {0, len(case.text), *(at for at in inside if case.schedule[at] != case.schedule[at - 1])}
    free = [at for at in inside if at not in forced]
    for chosen in product((False, True), repeat=len(free)):
        places = sorted(forced | {at for at, cut in zip(free, chosen, strict=True) if cut})
        yield [(case.schedule[a], case.text[a:b]) for a, b in pairwise(places)]


def _streamed(case: Case, rail: MatchRail, pieces: list[tuple[int, str]], letters: str) -> Outcome:
    """Return the released text by channel and the reason of the end, checking the text at every step. Raises
    `InvariantViolated`."""
    moderation = Moderation([("r", rail)], REQUEST, Caller(), lead=case.lead)
    fed, joined = ["", ""], ["", ""]
    reason: str | None = None
    for channel, text in pieces:
        deltas = moderation.feed(Piece(0, text, channel=CHANNELS[channel]))
        fed[channel] += text
        for delta in deltas:
            joined[CHANNELS.index(delta.channel)] += delta.text
            reason = delta.finish_reason
        if reason is None:
            for n in (0, 1):
                if joined[n] != (due := _due(fed[n], case.patterns, letters, case.lead)):
                    raise InvariantViolated(
                        f"{case} cut as {pieces}: of {fed[n]!r} left {joined[n]!r}, due was {due!r}"
                    )
    for delta in moderation.feed(Piece(0, finish_reason="stop")):
        joined[CHANNELS.index(delta.channel)] += delta.text
        reason = delta.finish_reason
    return (joined[0], joined[1]), reason


# --- what the law says, from texts alone ---------------------------------------------------------------------------


def _spans(text: str, patterns: tuple[str, ...], lead: str = "") -> list[tuple[int, int]]:
    """Find every match of every pattern in the text, or begun in its lead and ended in it. Overlapping matches become
    one span."""
    whole, base = lead + text, len(lead)
    found = sorted(
        (max(0, at - base), at + len(p) - base)
        for p in patterns
        for at in range(len(whole) - len(p) + 1)
        if whole.startswith(p, at) and at + len(p) > base
    )
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return spans


def _written(text: str, spans: Sequence[tuple[int, int]], end: int) -> str:
    """Return `text` up to `end`, with the spans in it replaced."""
    out, at = "", 0
    for start, stop in spans:
        if stop <= end:
            out, at = out + text[at:start] + HIDDEN, stop
    return out + text[at:end]


@cache
def _clear(text: str, patterns: tuple[str, ...], letters: str, lead: str = "") -> int:
    """Return the last offset that no continuation can make part of a match. A match at the very end is not over: rules
    may look at the character behind it."""
    reach = len(text)
    for n in range(max(map(len, patterns))):
        for more in map("".join, product(letters, repeat=n)):
            reach = min(
                [reach, *(start for start, end in _spans(text + more, patterns, lead) if start < len(text) <= end)]
            )
    return reach


@cache
def _due(text: str, patterns: tuple[str, ...], letters: str, lead: str) -> str:
    """Return what must have left of a text that goes on: no more, since it may become forbidden, and no less."""
    return _written(text, _spans(text, patterns, lead), _clear(text, patterns, letters, lead))


def _allowed(case: Case, letters: str) -> Outcome:
    """Return what may leave, each text read by itself. The first match that is over ends the choice, where matches
    block."""
    fed = ["", ""]
    for char, channel in zip(case.text, case.schedule, strict=True):
        fed[channel] += char
        clear = [_clear(text, case.patterns, letters, case.lead) for text in fed]
        over = [start for start, end in _spans(fed[channel], case.patterns, case.lead) if end <= clear[channel]]
        if case.action == "block" and over:
            clear[channel] = over[0]
            return (fed[0][: clear[0]], fed[1][: clear[1]]), "content_filter"
    return _closed(case, fed, letters)


def _closed(case: Case, texts: list[str], letters: str) -> Outcome:
    """Return what may leave at the end. Texts are closed in their order, content first; one that blocks leaves the
    later ones as they are."""
    spans = [_spans(text, case.patterns, case.lead) for text in texts]
    if case.action == "redact" or not any(spans):
        first, second = (_written(text, found, len(text)) for text, found in zip(texts, spans, strict=True))
        return (first, second), "stop"
    if spans[0]:
        return (
            texts[0][: spans[0][0][0]],
            texts[1][: _clear(texts[1], case.patterns, letters, case.lead)],
        ), "content_filter"
    return (texts[0], texts[1][: spans[1][0][0]]), "content_filter"


def main() -> None:
    asked = common.parser(__doc__, None, 0, "letters a text has; 0: as in the decision page").parse_args()
    sizes = [("ab", 6, 4, 1, 0), ("abc", 4, 3, 1, 0), ("ab", 5, 2, 2, 0), ("ab", 4, 3, 1, 3), ("ab", 3, 2, 2, 2)]
    if asked.limit:
        sizes = [("ab", asked.limit, 3, 1, 0), ("ab", asked.limit, 3, 1, 2)]
    found = []
    for letters, length, size, together, lead in sizes:
        began = time.perf_counter()
        count = tried(letters, length, size, together, lead)
        took = time.perf_counter() - began
        print(
            f"alphabet {letters}, texts of {length}, patterns up to {size}, {together} at a time, leads up to {lead}: "
            f"{count:,} streams, the law holds ({took:.0f} s)"
        )
        found.append({"alphabet": letters, "length": length, "patterns": size, "lead": lead, "streams": count})
    common.report(asked, {"sizes": found})


if __name__ == "__main__":
    main()
