"""Greedy decoding of a batch of prompts, free or under a grammar; small and slow, for evaluation only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache


class Matcher(Protocol):
    """The part of `grammar.Matcher` that decoding needs."""

    @property
    def is_finished(self) -> bool: ...

    def fill_mask(self, row: NDArray[np.int32]) -> bool: ...

    def accept(self, token_id: int) -> object: ...


@torch.no_grad()
def greedy(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    max_new_tokens: int,
    matchers: Sequence[Matcher | None] | None = None,
) -> list[str]:
    """Return the decoded answers without end tokens. `matchers` has one grammar state per prompt, or None for free
    text."""
    ids, mask = _left_padded(tokenizer, prompts, model.device)
    constraints = matchers or [None] * len(prompts)
    answers: list[list[int]] = [[] for _ in prompts]
    open_rows = [True] * len(prompts)
    cache = DynamicCache()
    for _ in range(max_new_tokens):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.size(1) :]
        # The cache by its place: transformers 5.24 renamed it.
        output = model(ids, mask, positions, cache, use_cache=True)
        logits = output.logits[:, -1].float()  # [B, V]
        chosen = _choose(logits, constraints, open_rows)
        for row, token in enumerate(chosen):
            open_rows[row] = open_rows[row] and _take(token, answers[row], constraints[row], tokenizer.eos_token_id)
        if not any(open_rows):
            break
        ids = torch.tensor(chosen, device=model.device)[:, None]
        mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], dim=1)
    return [tokenizer.decode(answer, skip_special_tokens=True) for answer in answers]


def _left_padded(tokenizer: Any, prompts: Sequence[str], device: Any) -> tuple[Tensor, Tensor]:
    encoded = [tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts]
    width = max(map(len, encoded))
    ids = [[tokenizer.pad_token_id] * (width - len(row)) + row for row in encoded]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in encoded]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _choose(logits: Tensor, constraints: Sequence[Matcher | None], open_rows: list[bool]) -> list[int]:
    for row, matcher in enumerate(constraints):
        if matcher is not None and open_rows[row]:
            words = np.zeros((logits.size(1) + 31) // 32, dtype=np.int32)
            matcher.fill_mask(words)
            bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: logits.size(1)]
            logits[row].masked_fill_(torch.from_numpy(bits == 0).to(logits.device), float("-inf"))
    return [int(token) for token in logits.argmax(-1)]


def _take(token: int, answer: list[int], matcher: Matcher | None, end_id: int) -> bool:
    """Append the token; return False if the row is finished."""
    if token == end_id:
        return False
    answer.append(token)
    if matcher is None:
        return True
    matcher.accept(token)
    return not matcher.is_finished
