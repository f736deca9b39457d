"""A small encoder that judges sameness: all-MiniLM-L6-v2 from a folder, and what this package adds to its weights.

`pair_adapter.npz` holds a low-rank addition to each matrix of the encoder's layers, as 8-bit integers with a scale a
row, and the layer that makes one number of its states; `training/sameness/` makes it. Both questions are read at once,
the shorter one first, which takes some 11 ms of one core.

Not covered: languages other than English; another encoder than the one that the adapter was trained on, which is
refused; pairs of more than 40 pieces each, which it takes for different.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from sluicegate.cache.semantic.judged.asked_kinds import ask_apart, asked_kinds
from sluicegate.plugins.errors import ConfigurationError

MOST_PIECES = 40
ADAPTER = "pair_adapter.npz"


class EncoderJudge:
    """Judges pairs of questions in a thread."""

    def __init__(self, folder: Path, adapter: Mapping[str, Any] | None = None) -> None:
        """Load the encoder of a folder and add the adapter, by default the package's. Raises `ConfigurationError`
        where there is none, or another."""
        adapter = package_adapter() if adapter is None else adapter
        self._tokenizer, self._encoder = _loaded(folder)
        if fingerprint(self._encoder) != adapter["base"].tobytes().decode():
            raise ConfigurationError(
                f"judge: the folder {str(folder)!r} holds another model than all-MiniLM-L6-v2, which the adapter of "
                "this judge was trained on; fetch that one, or name a chat model as judge"
            )
        add(self._encoder, adapter)
        self._weights, self._bias = adapter["head"].astype(np.float32), float(adapter["head_bias"])
        self.threshold = float(adapter["threshold"])
        """Least log odds of two questions that are one."""

    @staticmethod
    def tells_apart(kept: str, asked: str) -> bool:
        """Return whether two questions ask for different kinds of things, which the encoder is not asked about."""
        return ask_apart(asked_kinds(kept), asked_kinds(asked))

    async def same(self, one: str, other: str, tenant: str) -> bool:
        """Return whether one answer serves both questions, whoever asks. Raises what the encoder raises."""
        return await asyncio.to_thread(self.score, one, other) >= self.threshold

    def score(self, one: str, other: str) -> float:
        """Return the log odds that one answer serves both questions."""
        import torch

        first, second = sorted((one, other), key=lambda text: (len(text), text))
        read = self._tokenizer(first, second, return_tensors="pt")
        if int(read["token_type_ids"].sum()) > MOST_PIECES + 1 or read["input_ids"].shape[1] > 2 * MOST_PIECES + 3:
            return -np.inf
        with torch.inference_mode():
            states = self._encoder(**read).last_hidden_state[0].float().numpy()  # [T, width]
        return float(np.concatenate([states[0], states.mean(0)]) @ self._weights + self._bias)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


def package_adapter() -> dict[str, Any]:
    """Return the adapter that the package holds."""
    with as_file(files(__package__).joinpath(ADAPTER)) as path, np.load(path, allow_pickle=False) as read:
        return dict(read)


def fingerprint(encoder: Any) -> str:
    """Return a digest of an encoder's first layer, by which the adapter knows its base."""
    weights = encoder.encoder.layer[0].attention.self.query.weight if hasattr(encoder, "encoder") else None
    told = b"" if weights is None else weights.detach().float().numpy().tobytes()
    return hashlib.blake2b(told, digest_size=16).hexdigest()


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


def _loaded(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    if not folder.is_dir():
        raise ConfigurationError(f"judge: there is no folder {str(folder)!r}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return tokenizer, AutoModel.from_pretrained(folder, trust_remote_code=False).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigurationError(f"the judge in {str(folder)!r} cannot be loaded: {error}") from error
