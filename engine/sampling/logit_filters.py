"""Filter logits before a draw: tokens that would complete a bad word, and atypical tokens."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.sampling.logit_indices import LogitIndices
from sluicegate.engine.sampling.rows import LogitsRow

_FORBIDDEN = float("-inf")


def refuse_bad_words(logits: Tensor, rows: Seq[LogitsRow], worded: Seq[int]) -> None:
    """Set the last token of a bad word to -inf in `logits` [R, V] where its other tokens are the row's newest.
    `worded`: the rows that have bad words."""
    pairs: list[tuple[int, int]] = []
    for index in worded:
        tokens = rows[index].tokens
        pairs += [(index, word[-1]) for word in rows[index].rule.bad_words if _ends_with(tokens, word[:-1])]
    if (indices := LogitIndices.of(pairs, logits.device)) is not None:
        indices.refuse(logits)


class TypicalRows(NamedTuple):
    """Rows sampled with locally typical sampling (Meister et al., 2022); tensors on the device of the logits."""

    rows: Tensor
    """Row indices, int64 [W]."""
    temperature: Tensor
    """float32 [W, 1]."""
    mass: Tensor
    """float32 [W, 1]."""

    @classmethod
    def of(cls, rows: Seq[LogitsRow], device: torch.device) -> TypicalRows | None:
        """Collect the rows with a typical mass below 1, greedy ones left out; None if there are none."""
        wanted = [i for i, row in enumerate(rows) if row.rule.typical < 1.0 and not row.rule.greedy]
        if not wanted:
            return None
        rules = [rows[i].rule for i in wanted]
        # Above zero in float32 too, so that the most typical token always stays.
        numbers = [[rule.temperature for rule in rules], [max(rule.typical, 1e-9) for rule in rules]]
        sent = to_device(torch.tensor([wanted, *numbers], dtype=torch.float64), device)
        return cls(sent[0].long(), sent[1, :, None].float(), sent[2, :, None].float())

    def keep(self, logits: Tensor) -> None:
        """Set atypical tokens of `logits` [R, V] to -inf, in place.

        Kept are the tokens whose surprise is nearest to the distribution's entropy, as many as hold `mass`. Applied
        after temperature, before top-k, top-p and min-p.
        """
        mine = logits.index_select(0, self.rows)
        surprise = -torch.log_softmax(mine / self.temperature, -1)  # [W, V], inf where refused
        p = torch.exp(-surprise)
        entropy = torch.where(p > 0, p * surprise, 0).sum(-1, keepdim=True)
        order = (surprise - entropy).abs().argsort(dim=-1, stable=True)
        sorted_p = p.gather(1, order)
        unusual = torch.empty_like(p, dtype=torch.bool).scatter_(1, order, sorted_p.cumsum(-1) - sorted_p >= self.mass)
        logits.index_copy_(0, self.rows, mine.masked_fill_(unusual, _FORBIDDEN))


def _ends_with(tokens: list[int], beginning: tuple[int, ...]) -> bool:
    return not beginning or tuple(tokens[-len(beginning) :]) == beginning
