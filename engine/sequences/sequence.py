"""Hold the mutable state of one sequence, from submission to its end. Touched by the engine thread alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sluicegate.engine.memory.blocks import BlockPool, Digest
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.probes.reading import ProbedReading
from sluicegate.engine.sampling.params import DrawRule
from sluicegate.engine.sequences.closing import Closer
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.sequences.drafting import DraftAcceptance, Drafter, LookupAcceptance
from sluicegate.engine.sequences.repetition import LoopDetector
from sluicegate.engine.text.choice_text import ChoiceText
from sluicegate.plugins import ClosedBy, Matcher, Sampling, Timeline


class SequenceState(Enum):
    NEW = auto()
    WAITING = auto()
    RUNNING = auto()
    PARKED = auto()
    """Neither waiting nor running: its beam search, or its slow grammar, decides when it continues."""
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """One choice of one generation.

    `tokens` is the prompt and everything generated; the keys and values of the first `computed` of them are in the
    blocks of `blocks`, or will be after the step that is being computed. The scheduler owns `state`, `key`, `blocks`
    and `computed`; the core appends to `tokens`.
    """

    tokens: list[int]
    prompt_length: int
    max_length: int
    """Most tokens of prompt and output together."""
    sampling: Sampling
    rule: DrawRule
    seed: int
    tenant: str
    priority: int
    root: Digest
    owner: LiveGeneration
    output: ChoiceText
    matcher: Matcher | None = None
    closer: Closer | None = None
    closed: ClosedBy = ""
    """Why it was ended before the model ended it; its last tokens are then the shortest valid ending of its grammar."""
    adapter: Adapter | None = None
    """The LoRA adapter its tokens are computed with."""
    is_beam: bool = False
    """Whether it is one of the beams of its request's beam search."""
    repetition: LoopDetector | None = None
    """Ends the output if it repeats itself too often; set if the request or the engine's settings ask for it."""
    probed: ProbedReading | None = None
    """Progress of the probes in its tokens, if its job wants them judged."""
    sizes_behind: list[int] | None = None
    """The `sizes` of `probed` where scores follow their texts: so a step need not touch that object."""
    reads_rest: bool = False
    """Whether its answer has ended and only the probes' scores of its last tokens are missing."""
    stopped: bool = False
    """Whether a stop string was found in the output."""
    state: SequenceState = SequenceState.NEW
    key: tuple[int, int] = (0, 0)
    """Order of service, smaller first: (fair-queue tag, arrival)."""
    started_s: float | None = None
    """When it first left the queue, on the monotonic clock."""
    computed: int = 0
    cached_tokens: int | None = None
    """Prompt tokens found in the prefix cache when it first started; None before."""
    blocks: list[int] = field(default_factory=list)
    table: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, np.int64))
    """int64; `blocks` as an array, valid up to `len(blocks)`."""
    table_address: int = 0
    """Address of the table's memory; 0 before it holds anything."""
    digests: list[Digest] = field(default_factory=list)
    """Digests of the full blocks of `tokens`, as far as computed; tokens never change, so they stay valid."""
    published: int = 0
    """How many of its blocks other sequences may reuse."""
    state_slot: int = -1
    """While it runs, its number among the running sequences: where recurrent layers keep its states."""

    state_ends: tuple[int, ...] = ()
    """For recurrent layers: token counts at which states are stored, so that other sequences can continue there;
    ascending."""

    draft: list[int] = field(default_factory=list)
    """Draft tokens after `tokens`, to be verified by the next step."""
    drafter: Drafter | None = None
    lookup_acceptance: LookupAcceptance = field(default_factory=LookupAcceptance)
    draft_acceptance: DraftAcceptance | None = None
    hidden: Tensor | None = None
    """The state [d] from which its newest token was drawn, if draft heads need it."""
    hidden_length: int = 0
    """Number of tokens before that one."""
    hidden_row: int = 0
    """Which of its rows in the last step had that state."""
    by_batch_drafter: bool = False
    """Whether the draft came from the batch drafter, not from prompt lookup."""
    timeline: Timeline = field(default_factory=Timeline)
    """Timeline of its generation."""
    refused: dict[int, float] = field(default_factory=dict)
    """For `explain`: distance ahead of a row in this step -> share of the vocabulary that its mask refuses."""

    @property
    def is_plain(self) -> bool:
        """Return whether each token can be passed on as it comes: no grammar, search, logprobs, stop strings,
        repetition detection, minimum length or explanation."""
        unbound = self.matcher is None and not self.is_beam and self.rule.logprobs is None
        unbound = unbound and self.repetition is None and not self.sampling.stop_token_ids
        return unbound and not self.timeline.explain and not self.sampling.min_tokens and self.output.is_direct

    @property
    def pending(self) -> int:
        """Count the tokens whose keys and values are not computed yet; 0 only for a beam waiting for the others."""
        return len(self.tokens) - self.computed

    @property
    def reusable(self) -> int:
        """Count the tokens that may be taken from the prefix cache: all but the newest, and none that probes must still
        score."""
        return len(self.tokens) - 1 if self.probed is None else min(len(self.tokens) - 1, self.probed.known)

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length

    def hold(self, blocks: list[int]) -> None:
        """Append blocks to the block table."""
        start, end = len(self.blocks), len(self.blocks) + len(blocks)
        if end > len(self.table):
            self.table = np.concatenate([self.table, np.zeros(max(end, len(self.table)), np.int64)])
            self.table_address = 0
        self.table_address = self.table_address or self.table.ctypes.data
        self.table[start:end] = blocks
        self.blocks += blocks

    def name_blocks(self, pool: BlockPool, tokens: int) -> list[Digest]:
        """Return the names of the blocks filled by the first `tokens` tokens; [] if the pool reuses nothing."""
        return pool.extend_names(self.digests, self.root, self.tokens, tokens)
