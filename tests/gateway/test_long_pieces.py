"""A long text that comes at once is read by the output rails in parts, and other requests go on in between."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.request.output import LONG, parts_of
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Piece, TokenLogprob

RAIL: dict[str, Any] = {
    "pipeline": {"moderate": ["blocklist"]},
    "stages": {"moderate": {"blocklist": {"phrases": ["project nightjar"], "action": "redact"}}},
}
PLAIN = ". " * 10_000


@pytest.mark.parametrize("size", [0, 1, LONG, LONG + 1, 3 * LONG, 3 * LONG + 7])
def test_parts_make_the_piece_and_the_last_says_how_it_ended(size: int) -> None:
    piece = Piece(1, "ab" * (size // 2) + "c" * (size % 2), finish_reason="stop", closed="length", ends=True, call=2)
    parts = list(parts_of(piece))
    assert "".join(part.text for part in parts) == piece.text
    assert all(0 < len(part.text) <= LONG for part in parts) or size == 0
    assert [part.finish_reason for part in parts] == [None] * (len(parts) - 1) + ["stop"]
    assert [part.ends for part in parts] == [False] * (len(parts) - 1) + [True]
    assert {(part.index, part.call) for part in parts} == {(1, 2)}


def test_a_piece_with_log_probabilities_or_scores_of_probes_stays_whole() -> None:
    text = "x" * 3 * LONG
    for piece in (Piece(0, text, logprobs=(TokenLogprob(0, text, text.encode(), -1.0),)), Piece(0, text, probed=({},))):
        assert list(parts_of(piece)) == [piece]


async def test_other_work_goes_on_between_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    read: list[tuple[int, int]] = []
    feed = Moderation.feed

    async def work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def watched(moderation: Moderation, piece: Piece) -> Any:
        read.append((turns, len(piece.text)))
        return feed(moderation, piece)

    monkeypatch.setattr(Moderation, "feed", watched)
    async with TestApp(script=[json.dumps(list(range(5000)))], **RAIL) as app:
        other = asyncio.create_task(work())
        await app.ask_async()
        other.cancel()
    assert max(length for _, length in read) <= LONG
    assert len({turn for turn, _ in read}) >= len(read) - 1 > 20


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("before", [LONG - 17, LONG - 16, LONG - 9, LONG - 1, LONG, LONG + 1])
def test_a_phrase_across_the_border_of_two_parts_is_found(stream: bool, before: int) -> None:
    said = PLAIN[:before] + "project nightjar" + PLAIN
    with TestApp(script=[said], **RAIL) as app:
        assert app.ask(stream=stream).text == PLAIN[:before] + "[REDACTED]" + PLAIN
