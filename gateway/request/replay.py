"""A kept answer played back through the same rails as a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from sluicegate.plugins import Answer, Piece, Usage


class Replay:
    """A `Generation` that yields answers of the cache whole, one piece a choice, and costs no tokens."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for answer in self._answers:
            for piece in _pieces(answer):
                yield piece

    def cancel(self) -> None:
        """Nothing runs."""

    @property
    def usage(self) -> Usage:
        return Usage()


def _pieces(answer: Answer) -> Iterator[Piece]:
    """By text, each whole, in the order in which a model writes them; the last one ends the choice."""
    parts: list[Piece] = []
    if answer.reasoning:
        parts.append(Piece(answer.index, answer.reasoning, channel="reasoning", ends=True))
    if answer.text or not answer.tool_calls:
        parts.append(Piece(answer.index, answer.text, logprobs=answer.logprobs, ends=True))
    for number, call in enumerate(answer.tool_calls):
        parts.append(
            Piece(answer.index, call.arguments, channel="tool_arguments", call=number, tool=call.name, ends=True)
        )
    yield from parts[:-1]
    yield replace(parts[-1], finish_reason=answer.finish_reason, closed=answer.closed, stopped_by=answer.stopped_by)
