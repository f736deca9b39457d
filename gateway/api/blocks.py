"""Streams that are made of blocks: thoughts, text, a call, each opened, grown and closed in its turn.

For wire formats with one choice (`/v1/responses`, `/v1/messages`); what an event looks like, the format says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from gateway.exchange import Delta
from plugins import Channel, TokenLogprob, ToolCall


@dataclass(slots=True)
class Block:
    """`number`: its place in the output. `whole` is False where the output ended inside it."""

    kind: Channel | Literal["refusal"]
    number: int
    call: ToolCall | None = None
    parts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    whole: bool = True

    @property
    def text(self) -> str:
        return "".join(self.parts)


class BlockWriter(ABC):
    """Knows which block is open. Subclasses write `_opened`, `_grown` and `_closed`."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._open: Block | None = None

    def delta(self, delta: Delta) -> bytes:
        written: list[bytes] = []
        if delta.opened is not None:
            written += [self._close(), self._begin(Block("tool_arguments", len(self.blocks), delta.opened))]
        elif delta.text and (self._open is None or self._open.kind != delta.channel):
            written += [self._close(), self._begin(Block(delta.channel, len(self.blocks)))]
        if self._open is not None and (delta.text or delta.logprobs):
            self._open.parts.append(delta.text)
            self._open.logprobs += delta.logprobs
            written.append(self._grown(self._open, delta.text, delta.logprobs))
        if delta.finish_reason is not None:
            written.append(self._end(delta))
        return b"".join(written)

    def _end(self, delta: Delta) -> bytes:
        if self._open is not None:
            self._open.whole = delta.finish_reason in ("stop", "tool_calls")
        written = self._close()
        if delta.refusal is not None:
            refusal = Block("refusal", len(self.blocks), parts=[delta.refusal])
            written += self._begin(refusal) + self._grown(refusal, delta.refusal, ()) + self._close()
        return written

    def _begin(self, block: Block) -> bytes:
        self.blocks.append(block)
        self._open = block
        return self._opened(block)

    def _close(self) -> bytes:
        block, self._open = self._open, None
        return b"" if block is None else self._closed(block)

    @abstractmethod
    def _opened(self, block: Block) -> bytes: ...

    @abstractmethod
    def _grown(self, block: Block, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes: ...

    @abstractmethod
    def _closed(self, block: Block) -> bytes: ...


def event(name: str, fields: dict[str, Any]) -> bytes:
    """One server-sent event that says its type twice, as both formats do."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps({"type": name, **fields}))
