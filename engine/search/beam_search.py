"""Run beam search: the beams of one request share blocks, and branch together once all are computed.

A computed beam waits, with nothing pending, until the slowest beam of its search has caught up. A branch shares the
full blocks of its parent with its siblings, and gets a copy of the last, unfilled one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from torch import Tensor, stack

from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.memory.blocks import BlockPool, Digest, OutOfBlocks
from sluicegate.engine.search.beams import BeamGroup, FinishedBeam, best
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.plugins import FinishReason, GenerationFailed, Matcher

Copies = list[tuple[int, int]]
"""(from, to): blocks to copy before the next step."""
Finishes = Callable[[Sequence, list[int]], FinishReason | None]
"""Maps a sequence, and its generated tokens plus one more, to the reason why it ends there; None = it goes on. The
matcher has accepted the tokens."""


@dataclass(slots=True, eq=False)
class BeamSearch:
    """One search. `slots` hold the beams, group after group; slots beyond a group's beams are idle."""

    slots: list[Sequence]
    groups: list[BeamGroup]
    choices: int
    _scores: dict[Sequence, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _matchers: _Matchers | None = None

    def __post_init__(self) -> None:
        matchers = [slot.matcher for slot in self.slots if slot.matcher is not None]
        self._matchers = _Matchers(matchers) if matchers else None

    def take(self, sequence: Sequence, scores: Tensor, raw: Tensor) -> None:
        """Store the next token's logprobs [V] of one beam: `scores` after penalties and masks, `raw` the model's
        own."""
        self._scores[sequence] = scores, raw

    @property
    def is_ready(self) -> bool:
        return all(beam in self._scores for beam in self._beams())

    @property
    def is_done(self) -> bool:
        return all(group.is_done for group in self.groups)

    def advance(self, scheduler: Scheduler, finishes: Finishes) -> Copies:
        """Branch every group once and assign sequences to the branches; return the blocks to copy."""
        chosen: Counter[int] = Counter()
        plan: list[tuple[Sequence, Sequence, int]] = []
        for group, slots in self._by_group():
            if not group.is_done:
                plan += self._branch(group, slots, chosen, finishes)
        self._scores = {}
        self._move_matchers(plan)
        return _rebranch(plan, self.slots, scheduler)

    def answers(self) -> list[FinishedBeam]:
        """Return the best answers, best first. Raises `GenerationFailed` if fewer ended than were asked for."""
        found = best(self.groups, self.choices)
        if len(found) < self.choices:
            raise GenerationFailed(
                f"beam search found {len(found)} whole answers of {self.choices}: mask, bias and bad words refuse the "
                "rest; ask for fewer choices, or for more beams"
            )
        return found

    def _branch(
        self, group: BeamGroup, slots: list[Sequence], chosen: Counter[int], finishes: Finishes
    ) -> list[tuple[Sequence, Sequence, int]]:
        # All groups begin at the prompt, which the first slot of the first group has computed.
        parents = slots[: len(group.beams)] if slots[0] in self._scores else self.slots[:1]
        scores = stack([self._scores[parent][0] for parent in parents])
        raw = stack([self._scores[parent][1] for parent in parents])
        branches = group.advance(scores, raw, chosen, lambda beam, token: _end_of(parents[beam], token, finishes))
        return [(slot, parents[b.parent], b.token) for slot, b in zip(slots, branches, strict=False)]

    def _move_matchers(self, plan: list[tuple[Sequence, Sequence, int]]) -> None:
        if self._matchers is not None:
            index = {id(slot): at for at, slot in enumerate(self.slots)}
            by_slot = [(index[id(child)], index[id(parent)], token) for child, parent, token in plan]
            for slot, matcher in zip(self.slots, self._matchers.follow(by_slot), strict=True):
                slot.matcher = matcher

    def _beams(self) -> list[Sequence]:
        """Return the sequences whose logits the next branching needs."""
        if not any(group.beams[0].tokens for group in self.groups if group.beams):
            return self.slots[:1]
        return [slot for group, slots in self._by_group() if not group.is_done for slot in slots[: len(group.beams)]]

    def _by_group(self) -> list[tuple[BeamGroup, list[Sequence]]]:
        width = self.groups[0].width
        return [(group, self.slots[at * width : (at + 1) * width]) for at, group in enumerate(self.groups)]


def _end_of(sequence: Sequence, token: int, finishes: Finishes) -> FinishReason | None:
    """Return the reason if the beam ends with `token`. The matcher accepts it and is rolled back."""
    generated = [*sequence.tokens[sequence.prompt_length :], token]
    if sequence.matcher is None:
        return finishes(sequence, generated)
    sequence.matcher.accept(token)
    try:
        return finishes(sequence, generated)
    finally:
        sequence.matcher.rollback(1)


class _Matchers:
    """One matcher per slot, and the tokens it has accepted.

    A matcher cannot be copied. The first branch of a parent takes the parent's; others get a spare one, which is rolled
    back to the common prefix and fed the rest.
    """

    def __init__(self, matchers: list[Matcher]) -> None:
        self._stands: list[tuple[Matcher, list[int]]] = [(matcher, []) for matcher in matchers]

    def follow(self, plan: Seq[tuple[int, int, int]]) -> list[Matcher]:
        """Return the matcher of every slot after the branches (child, parent, token) by slot; an idle slot gets any."""
        before, self._stands = self._stands, []
        heirs: dict[int, int] = {}
        for child, parent, _ in plan:
            heirs.setdefault(parent, child)
        spare = [stand for slot, stand in enumerate(before) if slot not in heirs]
        moved: dict[int, tuple[Matcher, list[int]]] = {}
        for child, parent, token in plan:
            stand = before[parent] if heirs[parent] == child else spare.pop()
            moved[child] = _walk(stand, [*before[parent][1], token])
        self._stands = [moved[slot] if slot in moved else spare.pop() for slot in range(len(before))]
        return [matcher for matcher, _ in self._stands]


def _walk(stand: tuple[Matcher, list[int]], target: list[int]) -> tuple[Matcher, list[int]]:
    matcher, history = stand
    pairs = enumerate(zip(history, target, strict=False))
    same = next((at for at, (left, right) in pairs if left != right), min(len(history), len(target)))
    if same < len(history):
        matcher.rollback(len(history) - same)
    for token in target[same:]:
        matcher.accept(token)
    return matcher, target


@dataclass(frozen=True, slots=True)
class _BranchPoint:
    """A parent's state before branching."""

    tokens: list[int]
    blocks: list[int]
    computed: int
    digests: list[Digest]


def _rebranch(plan: list[tuple[Sequence, Sequence, int]], slots: list[Sequence], scheduler: Scheduler) -> Copies:
    """Give every child its parent's tokens and blocks. Blocks are freed only after all children hold theirs."""
    points = {id(p): _BranchPoint(list(p.tokens), list(p.blocks), p.computed, list(p.digests)) for _, p, _ in plan}
    copies: Copies = []
    taken: set[int] = set()
    held = [_hold(points[id(parent)], scheduler.pool, taken, copies) for _, parent, _ in plan]
    for slot in slots:
        scheduler.park(slot)
    for (child, parent, token), (blocks, computed) in zip(plan, held, strict=True):
        point = points[id(parent)]
        child.tokens = [*point.tokens, token]
        child.digests = list(point.digests)
        scheduler.resume(child, blocks, computed)
    return copies


def _hold(point: _BranchPoint, pool: BlockPool, taken: set[int], copies: Copies) -> tuple[list[int], int]:
    """Return one child's blocks, and the number of tokens computed in them.

    Full blocks are shared. The last, unfilled one goes to the first child and is copied for others; without a free
    block for the copy its tokens are recomputed.
    """
    full = point.computed // pool.block_size
    shared = point.blocks[:full]
    pool.share(shared)
    if point.computed == full * pool.block_size:
        return shared, point.computed
    last = point.blocks[full]
    if last not in taken:
        taken.add(last)
        pool.share([last])
        return [*shared, last], point.computed
    try:
        (copy,) = pool.take(1)
    except OutOfBlocks:
        return shared, full * pool.block_size
    copies.append((last, copy))
    return [*shared, copy], point.computed
