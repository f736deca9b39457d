"""Streams of OpenAI's chunks: choices in an envelope that never changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.api.extras import extension, late_notes, usage
from sluicegate.gateway.http.errors import error_body
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import SluicegateError, exact_json

DONE = b"data: [DONE]\n\n"


def envelope(exchange: Exchange, kind: str) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "object": kind,
        "created": exchange.entry.created_s,
        "model": exchange.served.name,
        "system_fingerprint": f"fp_{exchange.served.version[:12]}",
    }


class ChunkStream(ABC):
    """Writes the frames of one stream. What never changes is rendered once: a chunk costs one small `dumps`."""

    kind: ClassVar[str]
    """The value of `object` in every chunk."""

    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        self._exchange = exchange
        self._explain = parsed.explain
        self._include_usage = parsed.include_usage
        self._reported: tuple[str, ...] = ()
        self._head = b"data: " + orjson.dumps(self._envelope())[:-1] + b',"choices":['

    def opening(self) -> bytes:
        """Write what could not be enforced, before any text."""
        notes = extension(self._exchange, explain=False)
        self._reported = self._exchange.not_enforced
        return self._opened(b',"sluicegate":' + exact_json.write(notes) if notes else b"")

    @abstractmethod
    def delta(self, delta: Delta) -> bytes: ...

    def closing(self) -> bytes:
        """Write usage and the stages where asked for, what was closed early, cut at a bound or stopped being enforced,
        then the end mark."""
        late = late_notes(self._exchange, self._reported, explain=self._explain)
        if not self._include_usage and not late:
            return DONE
        body = {**envelope(self._exchange, self.kind), "choices": [], "usage": usage(self._exchange)}
        last = {**body, "sluicegate": late} if late else body
        return b"data: " + orjson.dumps(last) + b"\n\n" + DONE

    def failing(self, error: SluicegateError) -> bytes:
        """Write an error inside a stream that has begun, which OpenAI's clients raise, and the end mark."""
        return b"data: " + error_body(error) + b"\n\n" + DONE

    def _envelope(self) -> dict[str, Any]:
        return envelope(self._exchange, self.kind)

    @abstractmethod
    def _opened(self, notes: bytes) -> bytes:
        """Write the first chunk. `notes`: the end of its envelope, empty where there is nothing to say."""
