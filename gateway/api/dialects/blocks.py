"""Write streams as blocks (thoughts, text, a call), each opened, grown and closed.

For wire formats with one choice (`/v1/responses`, `/v1/messages`), which bring the look of each event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Channel, TokenLogprob, ToolCall, exact_json

Key = tuple[str, int]
"""A text of the answer: its channel and the number of its call."""


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
    """Tracks which blocks are open. Subclasses write `_opened`, `_grown` and `_closed`.

    A block is closed when the stream turns to another and nothing of its text waits for a rail. Else it stays open, and
    the rest follows under its number while others grow; what a text says after its block was closed begins a new one.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.blocks: list[Block] = []
        self._exchange = exchange
        self._open: dict[Key, Block] = {}
        self._calls: set[int] = set()
        """Calls whose block was closed: the rest of their text is dropped (blanks, or what ends as an error)."""
        self._here: Key | None = None
        self._partial = PartialValues(exchange.request) if exchange.request.partial else None

    def delta(self, delta: Delta) -> bytes:
        key = delta.channel, delta.call
        written: list[bytes] = []
        if (delta.text or delta.opened is not None) and key != self._here:
            written.append(self._turn(key, delta))
        block = self._open.get(key)
        if block is not None and (delta.text or delta.logprobs):
            block.parts.append(delta.text)
            block.logprobs += delta.logprobs
            written.append(self._grown(block, delta.text, delta.logprobs))
        if self._partial is not None and (complete := self._partial.feed(delta)):
            written.append(self._told(complete))
        if delta.finish_reason is not None:
            written.append(self._end(delta))
        return b"".join(written)

    def _turn(self, key: Key, delta: Delta) -> bytes:
        """Continue in another block, opening it if needed."""
        self._here = key
        done = [other for other in self._open if other != key and self._is_settled(delta.index, *other)]
        written = b"".join([self._close(other) for other in done])
        if key in self._open or (delta.channel == "tool_arguments" and delta.call in self._calls):
            return written
        return written + self._begin(key, Block(delta.channel, len(self.blocks), delta.opened))

    def _is_settled(self, index: int, channel: str, call: int) -> bool:
        moderation = self._exchange.moderation
        if moderation is None or self._exchange.safety.restore:
            return False
        return moderation.is_settled(index, channel, call)  # type: ignore[arg-type]

    def _end(self, delta: Delta) -> bytes:
        for key, block in self._open.items():
            block.whole = delta.finish_reason != "content_filter" and not (
                delta.finish_reason == "length" and key == self._here
            )
        written = b"".join([self._close(key) for key in list(self._open)])
        if delta.refusal is not None:
            refusal = Block("refusal", len(self.blocks), parts=[delta.refusal])
            written += self._begin(("refusal", 0), refusal) + self._grown(refusal, delta.refusal, ())
            written += self._close(("refusal", 0))
        return written

    def _begin(self, key: Key, block: Block) -> bytes:
        self.blocks.append(block)
        self._open[key] = block
        return self._opened(block)

    def _close(self, key: Key) -> bytes:
        block = self._open.pop(key)
        if block.kind == "tool_arguments":
            self._calls.add(key[1])
        return self._closed(block)

    def _told(self, complete: dict[str, Any]) -> bytes:
        """Write an extension event with completed JSON values."""
        return event("sluicegate.partial", complete)

    @abstractmethod
    def _opened(self, block: Block) -> bytes: ...

    @abstractmethod
    def _grown(self, block: Block, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes: ...

    @abstractmethod
    def _closed(self, block: Block) -> bytes: ...


def event(name: str, fields: dict[str, Any]) -> bytes:
    """Write one server-sent event, with its type in both places where these formats have it."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), exact_json.write({"type": name, **fields}))
