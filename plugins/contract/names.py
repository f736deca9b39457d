"""Names of slots, channels and other categories, and the type of a token bitmask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:  # commands that serve nothing need no numpy
    import numpy as np
    import numpy.typing as npt

API_VERSION = 1
"""Increased when a Protocol changes shape; a plug-in that names another version is refused, with both numbers in the
message."""

SlotName = Literal[
    "admit", "screen", "route", "retrieve", "assemble", "recall", "constrain", "generate", "moderate", "record"
]
SLOTS: tuple[SlotName, ...] = get_args(SlotName)

Role = Literal["system", "developer", "user", "assistant", "tool"]
JudgedChannel = Literal["content", "reasoning", "tool_name", "tool_arguments"]
Channel = Literal[JudgedChannel, "refusal"]
CHANNELS: tuple[JudgedChannel, ...] = get_args(JudgedChannel)
"""The texts that rails judge. Pieces come on all channels but `tool_name`: a name comes with the first piece of its
call. A `refusal`, what another server says instead of an answer, rails read as content."""
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "cancelled", "error"]
ClosedBy = Literal["", "length", "repetition"]
CLOSED_BY: tuple[ClosedBy, ...] = get_args(ClosedBy)
ConstraintKind = Literal["json_schema", "json_object", "regex", "choice", "lark", "structural_tag", "text"]
Mask: TypeAlias = "npt.NDArray[np.int32]"
"""Token bitmask, int32 [ceil(V/32)]: bit `t % 32` of word `t // 32` is 1 if token `t` is allowed."""
