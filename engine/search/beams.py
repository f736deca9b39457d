"""Compute beam search: which continuations of the running beams go on, which are finished, and when to stop.

The rules are those of `transformers.generate`, which the tests compare with; groups are Vijayakumar et al., "Diverse
beam search" (2016). Nothing here knows of blocks, grammars or text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sluicegate.plugins import FinishReason, Sampling

Top = tuple[tuple[int, float], ...]
"""The likeliest tokens at one place, each with the model's own logprob."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Beam `parent` of the group, followed by `token`. `score`: the sum of logprobs."""

    parent: int
    token: int
    score: float
    logprob: float
    """The token's own, of the model itself."""
    top: Top = ()


@dataclass(frozen=True, slots=True)
class FinishedBeam:
    """A whole answer. `tokens` [length], `logprobs` and `tops` are of what was generated, with an end-of-sequence
    token."""

    score: float
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    reason: FinishReason
    tops: tuple[Top, ...] = ()


@dataclass(slots=True)
class Beam:
    """What a running beam has generated."""

    score: float = 0.0
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    tops: tuple[Top, ...] = ()

    def followed_by(self, branch: Branch) -> Beam:
        tokens, logprobs = (*self.tokens, branch.token), (*self.logprobs, branch.logprob)
        return Beam(branch.score, tokens, logprobs, (*self.tops, branch.top))


Ends = Callable[[int, int], FinishReason | None]
"""(beam, token) -> why the answer ends with this token, or None."""


@dataclass(slots=True)
class BeamGroup:
    """`width` beams that compete. It begins with one, at the prompt."""

    width: int
    sampling: Sampling
    longest: int
    """Tokens that an answer may have."""
    end_tokens: int
    """How many tokens end a sequence; so many more candidates are looked at, or all that is left could be ends."""
    beams: list[Beam] = field(default_factory=lambda: [Beam()])
    finished: list[FinishedBeam] = field(default_factory=list)
    is_done: bool = False

    def advance(self, scores: Tensor, raw: Tensor, chosen: Counter[int], ends: Ends) -> list[Branch]:
        """Return the branches that the group's beams become, best first; [] when the group is done.

        `scores` [beams, V] float32: logprobs after penalties and masks, -inf where refused; `raw` [beams, V]: those of
        the model itself. `chosen`: how often earlier groups chose a token in this step; this group's are added.
        """
        candidates = self._candidates(scores, raw, chosen)
        branches: list[Branch] = []
        for rank, branch in enumerate(candidates):
            reason = ends(branch.parent, branch.token)
            if reason is None:
                branches.append(branch)
            elif rank < self.width:
                chosen[branch.token] += 1
                self._finish(branch, reason)
        branches = branches[: self.width]
        chosen.update(branch.token for branch in branches)
        self.beams = [self.beams[branch.parent].followed_by(branch) for branch in branches]
        self.is_done = not branches or self._is_settled()
        return [] if self.is_done else branches

    def _candidates(self, scores: Tensor, raw: Tensor, chosen: Counter[int]) -> list[Branch]:
        """Return the likeliest continuations of all beams together, likeliest first; arguments as in `advance`."""
        if chosen and self.sampling.diversity_penalty:
            columns = torch.tensor(list(chosen), device=scores.device)
            counts = torch.tensor(list(chosen.values()), dtype=scores.dtype, device=scores.device)
            scores = scores.index_add(1, columns, (-self.sampling.diversity_penalty * counts).expand(len(scores), -1))
        sums = scores + torch.tensor([[beam.score] for beam in self.beams], device=scores.device)  # [beams, V]
        keep = min(max(2, 1 + self.end_tokens) * self.width, sums.numel())
        values, places = (found.tolist() for found in sums.flatten().topk(keep))
        vocab = sums.shape[1]
        own, tops = raw.flatten()[places].tolist(), self._tops(raw)
        return [
            Branch(place // vocab, place % vocab, value, logprob, tops[place // vocab])
            for value, place, logprob in zip(values, places, own, strict=True)
            if value > float("-inf")
        ]

    def _tops(self, raw: Tensor) -> list[Top]:
        """Return the likeliest tokens of every row of `raw` [beams, V], where alternatives were asked for."""
        if not self.sampling.logprobs:
            return [()] * len(raw)
        values, tokens = raw.topk(min(self.sampling.logprobs, raw.shape[1]))
        return [tuple(zip(*row, strict=True)) for row in zip(tokens.tolist(), values.tolist(), strict=True)]

    def _finish(self, branch: Branch, reason: FinishReason) -> None:
        whole = self.beams[branch.parent].followed_by(branch)
        if self.sampling.early_stopping is True and len(self.finished) >= self.width:
            return
        score = branch.score / len(whole.tokens) ** self.sampling.length_penalty
        self.finished.append(FinishedBeam(score, whole.tokens, whole.logprobs, reason, whole.tops))
        self.finished.sort(key=lambda one: -one.score)
        del self.finished[self.width :]

    def _is_settled(self) -> bool:
        """Return whether what still runs cannot, or will hardly, become better than what is finished."""
        if len(self.finished) < self.width:
            return False
        if self.sampling.early_stopping is True:
            return True
        penalty = self.sampling.length_penalty
        length: float = len(self.beams[0].tokens)
        if self.sampling.early_stopping == "never" and penalty > 0:
            length = self.longest
        best_possible: float = self.beams[0].score / length**penalty
        return best_possible <= self.finished[-1].score


def best(groups: Seq[BeamGroup], count: int) -> list[FinishedBeam]:
    """Return the best answers of all groups, best first."""
    return sorted((one for group in groups for one in group.finished), key=lambda one: -one.score)[:count]
