"""Two choices with thoughts, content and two calls of tools, in random pieces and order, and what leaves of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.plugins import Answer, Channel, Piece
from sluicegate.plugins.testing import chunkings

Texts = dict[tuple[int, Channel, int], str]
"""By choice, channel and number of the call."""
KINDS: tuple[tuple[Channel, int], ...] = (
    ("reasoning", 0),
    ("content", 0),
    ("tool_arguments", 0),
    ("tool_arguments", 1),
)


def texts_of_choices(say: Callable[[], str]) -> Texts:
    """Return what each channel of each choice says; `say` makes a text."""
    texts: Texts = {}
    for index in range(2):
        for channel, call in KINDS:
            said = say()
            texts[index, channel, call] = json.dumps({"text": said}) if channel == "tool_arguments" else said
    return texts


def scheduled(texts: Texts, chance: random.Random) -> list[Piece]:
    queues = {key: list(chunkings(text, seed=chance.randrange(99))[3].pieces) for key, text in texts.items()}
    begun: set[Any] = set()
    pieces: list[Piece] = []
    while any(queues.values()):
        index, channel, call = key = chance.choice([key for key, queue in queues.items() if queue])
        tool = "send" if channel == "tool_arguments" and key not in begun else None
        begun.add(key)
        pieces.append(Piece(index, queues[key].pop(0), channel=channel, call=call, tool=tool))
    return pieces + [Piece(index, finish_reason="tool_calls") for index in range(2)]


def check_withheld(texts: Texts, bad: str, answers: Sequence[Answer], moderation: Moderation) -> None:
    """Check that `bad` left on no channel, and that just the choices which hold it were stopped."""
    for (index, channel, call), text in texts.items():
        found = moderation._choices[index].texts.get((channel, call))
        released = "" if found is None else found.joined(whole=False)
        assert text.startswith(released)
        assert bad not in released
    for index, answer in enumerate(answers):
        is_bad = any(bad in text for key, text in texts.items() if key[0] == index)
        assert answer.finish_reason == ("content_filter" if is_bad else "tool_calls")
