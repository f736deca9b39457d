"""Embed texts: the mean of a decoder's last hidden states over a text's tokens, at unit length.

A generative model was not trained for similarity; these vectors cost no second model in memory, and rank well enough
for recall. An answer that must not be wrong needs a check after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, AttentionWindow, Scoring, attend_one
from sluicegate.engine.failures import as_failure
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import LoadedModel
from sluicegate.plugins import ContextLengthExceeded, Embeddings, RequestError

Texts = Seq[str | Seq[int]]


def read_texts(model: LoadedModel, texts: Texts) -> list[list[int]]:
    """Return the token ids of each text, with the tokenizer's special tokens; ids are passed through. Raises
    `RequestError` for an empty text, ids outside the vocabulary or a model that cannot embed, `ContextLengthExceeded`
    for a text longer than the context."""
    if model.is_sharded:
        raise RequestError(
            f"model {model.name!r} is shared by processes (tensor_parallel) and embeds no texts; name another, or an "
            "encoder",
            param="model",
        )
    if model.states:
        raise RequestError(
            f"model {model.name!r} has recurrent layers and embeds no texts; name another, or an encoder",
            param="model",
        )
    if not texts:
        raise RequestError("there are no texts to embed; send at least one", param="input")
    rows = [model.tokenizer.encode(text) if isinstance(text, str) else list(text) for text in texts]
    for at, ids in enumerate(rows):
        if not ids:
            raise RequestError(f"text {at} has no tokens; send at least one", param="input")
        if not 0 <= min(ids) <= max(ids) < model.vocab_size:
            raise RequestError(f"token ids of text {at} must lie between 0 and {model.vocab_size - 1}", param="input")
        if len(ids) > model.context_length:
            raise ContextLengthExceeded(
                f"text {at} has {len(ids)} tokens; model {model.name!r} reads {model.context_length}: shorten it",
                param="input",
            )
    return rows


@dataclass(slots=True, eq=False)
class _Text:
    """A text in progress: `done` of its tokens were computed; `total` [d] is the sum of their hidden states."""

    ids: list[int]
    done: int = 0
    total: Tensor | None = None
    past: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Layer -> K and V [1, H_kv, done, D]."""

    @property
    def mean(self) -> Tensor:
        assert self.total is not None
        return self.total / len(self.ids)


class EmbeddingTask:
    """A `Task` that embeds texts in slices of `budget` tokens: several short texts per forward pass, a long one over
    several."""

    def __init__(self, model: LoadedModel, rows: list[list[int]], budget: int, adapter: Adapter | None = None) -> None:
        self.future: asyncio.Future[Embeddings] = asyncio.get_running_loop().create_future()
        self._model = model
        self._texts = [_Text(ids) for ids in rows]
        self._budget = budget
        self._adapter = adapter

    @torch.inference_mode()
    def advance(self) -> bool:
        if self.future.cancelled():
            return True
        pieces = self._next_pieces()
        ids = [token for piece in pieces for token in piece.ids]
        positions = [at for piece in pieces for at in range(piece.start, piece.end)]
        spans = [] if self._adapter is None else [(0, len(ids), self._adapter)]
        with self._model.lora.adding(spans, np.arange(len(ids))):
            hidden = self._model.hidden(self._tensor(ids), self._tensor(positions), _TextAttention(pieces))  # [T, d]
        for piece, states in zip(pieces, hidden.split([len(piece.ids) for piece in pieces]), strict=True):
            piece.take(states)
        if any(text.done < len(text.ids) for text in self._texts):
            return False
        self._answer(torch.stack([text.mean for text in self._texts]))
        return True

    def fail(self, error: Exception) -> None:
        self._settle(lambda: self.future.set_exception(as_failure(error, "computing embeddings")))

    def _next_pieces(self) -> list[_Piece]:
        pieces, room = [], self._budget
        for text in self._texts:
            if room > 0 and text.done < len(text.ids):
                piece = _Piece(text, text.done, min(len(text.ids), text.done + room))
                room -= len(piece.ids)
                pieces.append(piece)
        return pieces

    def _answer(self, means: Tensor) -> None:
        vectors = torch.nn.functional.normalize(means.float(), dim=-1).cpu().numpy().astype(np.float32)
        if not np.isfinite(vectors).all():
            raise ValueError("the model computed hidden states that are not finite; check the checkpoint and its dtype")
        found = Embeddings(vectors, tuple(len(text.ids) for text in self._texts))
        self._settle(lambda: self.future.set_result(found))

    def _settle(self, act: Callable[[], None]) -> None:
        def settle() -> None:
            if not self.future.done():
                act()

        self.future.get_loop().call_soon_threadsafe(settle)

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._model.device)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Tokens [start, end) of a text, computed in one forward pass."""

    text: _Text
    start: int
    end: int

    @property
    def ids(self) -> list[int]:
        return self.text.ids[self.start : self.end]

    def take(self, hidden: Tensor) -> None:
        """Add the hidden states [T, d] of the piece to the text's sum."""
        total = hidden.float().sum(0)
        self.text.total = total if self.text.total is None else self.text.total + total
        self.text.done = self.end
        if self.end == len(self.text.ids):
            self.text.past = {}

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append `key` and `value` [1, H_kv, T, D] to the text's and return both; store them if the text has another
        piece."""
        if layer in self.text.past:
            before = self.text.past[layer]
            key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
        if self.end < len(self.text.ids):
            self.text.past[layer] = key, value
        return key, value


class _TextAttention:
    """An attention step in which each text attends to itself only. Does not use the KV pool."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = pieces

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        parts, at = [], 0
        for piece in self._pieces:
            here = slice(at, at := at + piece.end - piece.start)
            keys, values = piece.extend(layer, key[:, :, here], value[:, :, here])
            bias = _bias(piece, scoring.reach, query)
            parts.append(attend_one(query[:, :, here], keys, values, bias, scoring))
        return torch.cat(parts)


def alone(ids: list[int]) -> AttentionStep:
    """Return an attention step for `ids` as one whole text."""
    return _TextAttention([_Piece(_Text(ids), 0, len(ids))])


def _bias(piece: _Piece, reach: AttentionWindow, like: Tensor) -> Tensor | None:
    """Return [1, 1, T, S]; None = causal over the piece alone."""
    if piece.start == 0 and reach.covers(piece.end):
        return None
    queries = torch.arange(piece.start, piece.end, device=like.device)
    hidden = reach.hides(queries, torch.arange(piece.end, device=like.device))
    return torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))[
        None, None
    ]
