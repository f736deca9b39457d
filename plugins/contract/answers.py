"""Results of a generation: pieces while it runs, whole answers, their cost, and the request's outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluicegate.plugins.contract.names import Channel, ClosedBy, FinishReason, SlotName
from sluicegate.plugins.contract.requests import Caller, Request, ToolCall
from sluicegate.plugins.contract.token_scores import TokenLogOdds, join_scores
from sluicegate.plugins.frozen import quick
from sluicegate.plugins.timeline import Timeline

if TYPE_CHECKING:  # commands that serve nothing need no numpy
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    token: str
    data: bytes
    """The token's exact bytes (a token may hold part of a code point)."""
    logprob: float
    top: tuple[tuple[int, str, bytes, float], ...] = ()
    """(token_id, token, bytes, logprob), likeliest first."""


@quick
@dataclass(frozen=True, slots=True)
class Piece:
    """A step of one choice: text that became final (whole code points), and, on the last one, why it ended."""

    index: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    channel: Channel = "content"
    call: int = 0
    """The call's number within its choice, if the channel is `tool_arguments`."""
    tool: str | None = None
    """Name of the tool, on the first piece of a call."""
    closed: ClosedBy = ""
    """On the last piece: why the generator ended the text before the model did. `length`: no tokens were left;
    `repetition`: the text repeated itself. A constrained text then ends with the shortest valid ending."""
    ends: bool = False
    """Whether its text (the channel's, or the call's) is complete, whatever else the choice goes on to say. A generator
    that cannot know leaves it False: the text then stays open until the choice ends."""
    stopped_by: str = ""
    """On the last piece: the stop string of the request that ended the choice."""
    probed: TokenLogOdds = ()
    """The probes' scores of all tokens of the text, log-odds by label, if the job asked for them: a tuple of mappings,
    or `TokenScores`. Empty = not probed."""
    joined: tuple[tuple[int, int], ...] = ()
    """Of a probed piece that was joined of several, or has several tokens of text: characters and scores of each, in
    order. Empty = it is one."""
    behind: bool = False
    """Whether `probed` and `joined` are of the next text of its channel that has no scores yet, which earlier pieces
    may have brought. A job asks for that with `scores_behind`."""

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Return characters and scores of each of the pieces that it was joined of; of itself if it is one."""
        return self.joined or ((len(self.text), len(self.probed)),)


def join_pieces(pieces: Sequence[Piece], facts: Piece) -> Piece:
    """Return successive pieces of one text as one. What it says beside text, tokens and scores is what `facts`, one of
    them, says."""
    if len(pieces) == 1:
        return pieces[0]
    probed = join_scores([piece.probed for piece in pieces])
    return Piece(
        facts.index,
        "".join([piece.text for piece in pieces]),
        tuple([token for piece in pieces for token in piece.token_ids]),
        tuple([entry for piece in pieces for entry in piece.logprobs]),
        facts.finish_reason,
        facts.channel,
        facts.call,
        facts.tool,
        facts.closed,
        facts.ends,
        facts.stopped_by,
        probed,
        tuple([part for piece in pieces for part in piece.parts if part != (0, 0)]) if probed else (),
    )


@quick
@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens whose KV blocks were reused."""


@quick
@dataclass(frozen=True, slots=True)
class Answer:
    """A finished choice as it left the gateway."""

    index: int
    text: str
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] = ()
    refusal: str | None = None
    """A rail's, or the other server's own: then `finish_reason` is that server's. No answer is whole that has one."""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    closed: ClosedBy = ""
    """As on its last `Piece`."""
    stopped_by: str = ""
    """As on its last `Piece`; always one of the request's stop strings."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything an answer depends on. `digest` is the SHA-256 hex of the canonical request within the scope."""

    tenant: str
    model: str
    digest: str


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors` float32 [n, d], each of length 1 unless the model's own modules leave that out; `tokens`: how many the
    model read for each text."""

    vectors: npt.NDArray[np.float32]
    tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()
    """Indices of texts of which only the beginning was read."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How well each text fits a query: `scores`, higher is better, in the model's own measure; `tokens` and `truncated`
    as in `Embeddings`, of the pairs."""

    scores: tuple[float, ...]
    tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """One stage's decision about a request, and how long it took."""

    slot: SlotName
    stage: str
    outcome: str
    duration_s: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    began_s: float = 0.0
    """Seconds from the request's arrival to its beginning."""


@quick
@dataclass(frozen=True, slots=True)
class Outcome:
    """A request's end, for recorders. `error` is the code of the typed error, if one was sent."""

    request: Request
    caller: Caller
    model: str
    answers: tuple[Answer, ...]
    usage: Usage
    decisions: tuple[Decision, ...]
    duration_s: float
    time_to_first_chunk_s: float | None = None
    error: str | None = None
    cached: bool = False
    saved: Usage = Usage()
    """Usage that a cached answer saved."""
    timeline: Timeline | None = None
    """Timing of the parts of the generation, if the generator reports it."""
    gaps_s: tuple[float, ...] = ()
    """Seconds between two texts that were sent."""
    held_s: float = 0.0
    """Longest time that text waited for a rail."""
    trace_id: str = ""
    """32 hex digits; "" where the trace is not exported."""
    by_caller: bool = False
    """Whether the caller can correct `error` (a 4xx): it then says nothing about how well requests are served."""
