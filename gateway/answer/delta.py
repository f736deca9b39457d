"""The unit in which an answer leaves the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins import Channel, FinishReason, TokenLogprob, ToolCall
from sluicegate.plugins.frozen import frozen_when_checked


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Delta:
    """The next output of one choice. `refusal` is set only together with `finish_reason`; `opened` begins the call
    number `call`: its id and name, without arguments."""

    index: int
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    refusal: str | None = None
    channel: Channel = "content"
    call: int = 0
    opened: ToolCall | None = None
