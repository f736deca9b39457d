"""Slot `record`: one JSON line a request. Never a prompt, an answer or a key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from sluicegate.plugins import Outcome


class JsonLines:
    """Lines are written off the event loop and one at a time."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._turn = asyncio.Lock()

    async def record(self, outcome: Outcome) -> None:
        async with self._turn:
            await asyncio.to_thread(self._append, json.dumps(_line(outcome)))

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _line(outcome: Outcome) -> dict[str, object]:
    return {
        "id": outcome.request.id,
        "tenant": outcome.caller.tenant,
        "model": outcome.model,
        "ended": outcome.error or [answer.finish_reason for answer in outcome.answers],
        "prompt_tokens": outcome.usage.prompt_tokens,
        "completion_tokens": outcome.usage.completion_tokens,
        "seconds": round(outcome.duration_s, 6),
        "cached": outcome.cached,
    }
