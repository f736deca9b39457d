"""Leave tokens out before a draw: those that would complete a bad word, and those that are not typical."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from sluicegate.engine.sampling.rows import LogitsRow

_FORBIDDEN = float("-inf")


def refuse_bad_words(logits: Tensor, rows: Seq[LogitsRow]) -> None:
    """Set to -inf, in `logits` [R, V], the last token of a bad word whose other tokens are a row's newest."""
    for index, row in enumerate(rows):
        if row.rule.bad_words:
            tokens = row.tokens
            banned = [word[-1] for word in row.rule.bad_words if _ends_with(tokens, word[:-1])]
            logits[index, banned] = _FORBIDDEN


def keep_typical(logits: Tensor, rows: Seq[LogitsRow]) -> None:
    """Keep the typical tokens of `logits` [R, V], in place (Meister et al., "Locally typical sampling", 2022): of the
    tokens whose surprise is nearest to the distribution's entropy only as many stay as hold `typical` of the mass.
    Comes before top-k, top-p and min-p, after temperature; greedy rows are left as they are."""
    wanted = [i for i, row in enumerate(rows) if row.rule.typical < 1.0 and not row.rule.greedy]
    if not wanted:
        return
    rules = [rows[i].rule for i in wanted]
    temperature = torch.tensor([rule.temperature for rule in rules], device=logits.device).unsqueeze(1)
    # Above zero in float32 too, so that the most typical token always stays.
    mass = torch.tensor([max(rule.typical, 1e-9) for rule in rules], device=logits.device).unsqueeze(1)
    surprise = -torch.log_softmax(logits[wanted] / temperature, -1)  # [W, V], inf where refused
    p = torch.exp(-surprise)
    entropy = torch.where(p > 0, p * surprise, 0).sum(-1, keepdim=True)
    order = (surprise - entropy).abs().argsort(dim=-1, stable=True)
    sorted_p = p.gather(1, order)
    unusual = torch.empty_like(p, dtype=torch.bool).scatter_(1, order, sorted_p.cumsum(-1) - sorted_p >= mass)
    logits[wanted] = logits[wanted].masked_fill(unusual, _FORBIDDEN)


def _ends_with(tokens: list[int], beginning: tuple[int, ...]) -> bool:
    return not beginning or tuple(tokens[-len(beginning) :]) == beginning
