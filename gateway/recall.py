"""Slot `recall`: what an answer depends on, and a kept answer played back through the same rails as a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plugins import Answer, Piece, Usage


class Replay:
    """A `Generation` that yields answers of the cache whole, one piece a choice, and costs no tokens."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for answer in self._answers:
            yield Piece(answer.index, answer.text, logprobs=answer.logprobs, finish_reason=answer.finish_reason)

    def cancel(self) -> None:
        """Nothing runs."""

    @property
    def usage(self) -> Usage:
        return Usage()
