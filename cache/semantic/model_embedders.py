"""Embedders that run a model: a sentence-transformers folder, an embeddings API, or a model that the gateway serves.

Not covered: folders with layers after the pooling (a `Dense` module, say); they are refused.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import orjson

from sluicegate.cache.entries import Vector
from sluicegate.cache.semantic.embedder import unit
from sluicegate.cache.semantic.encoder_folder import check_is_folder, load_encoder
from sluicegate.plugins.errors import ConfigurationError, Overloaded

POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
UPSTREAM_LIMIT_S = 2.0
"""Time limit of a whole answer, however slowly it arrives."""
MOST_BYTES = 4 * 1024 * 1024
MOST_DIM = 65_536
LARGEST = 1e6
"""Largest absolute value in a vector; embedding models give values near 1."""
SHORTEST = 1e-6
"""Shortest vector: if all vectors were about zero, all texts would be alike."""


class FolderEmbedder:
    """A local sentence-transformers folder, run with `transformers` on the CPU, in a thread."""

    threshold = 0.9

    def __init__(self, folder: Path) -> None:
        """Load the model of a folder. Raises `ConfigurationError` where there is none, or where it asks for more than
        mean or CLS pooling."""
        self._pooling = _pooling(folder)
        self._tokenizer, self._model = load_encoder(folder, "embedder")
        self.dim = int(self._model.config.hidden_size)
        self.name = f"folder-{folder.name}-{self._pooling}-{self.dim}"

    async def embed(self, text: str) -> Vector:
        return await asyncio.to_thread(self._embed, text)

    def _embed(self, text: str) -> Vector:
        import torch

        read = self._tokenizer(text, return_tensors="pt", truncation=True, max_length=self._longest)
        with torch.inference_mode():
            states = self._model(**read).last_hidden_state[0]  # [T, dim] float32
        pooled = states[0] if self._pooling == "cls" else states.mean(0)
        return unit(pooled.float().numpy())

    @property
    def _longest(self) -> int:
        return min(int(self._tokenizer.model_max_length), int(self._model.config.max_position_embeddings))


def _pooling(folder: Path) -> str:
    """Return how a sentence-transformers folder pools. Raises `ConfigurationError`, also for layers behind it."""
    check_is_folder(folder, "embedder")
    if not (folder / "modules.json").exists():
        return "mean"
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        asked = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8")) if "Pooling" in kinds else {}
        modes = [mode for name, mode in POOLING.items() if asked.get(name)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"embedder: modules.json or 1_Pooling/config.json in {str(folder)!r} cannot be read: "
            f"{type(error).__name__}: {error}; fetch them anew"
        ) from error
    if more := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise ConfigurationError(f"the embedder in {str(folder)!r} has layers that are not run here: {sorted(more)}")
    if len(modes) != 1:
        raise ConfigurationError(f"the embedder in {str(folder)!r} asks for a pooling other than mean or CLS")
    return modes[0]


class UpstreamEmbedder:
    """An OpenAI-compatible embeddings API, `POST url` with `model` and `input`; called once per semantic look-up."""

    threshold = 0.9

    def __init__(self, url: str, model: str, *, api_key: str | None = None) -> None:
        import httpx  # a fifth of a second to import: only those who ask others need it

        self.name = f"upstream-{model}"
        self.dim = 0
        """Length of a vector; known from the first answer on."""
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        headers["accept-encoding"] = "identity"
        self._url, self._model = url, model
        self._client = httpx.AsyncClient(headers=headers, timeout=UPSTREAM_LIMIT_S, follow_redirects=False)

    async def embed(self, text: str) -> Vector:
        """Return the API's vector for a text, scaled to length 1. Raises `httpx.HTTPError`, `TimeoutError`, and
        `ValueError` for a malformed answer or a changed dimension."""
        async with asyncio.timeout(UPSTREAM_LIMIT_S):
            body = await self._asked(text)
        vector = read_vector(body)
        if self.dim not in (0, len(vector)):
            raise ValueError(f"embeddings API answered a vector of {len(vector)} numbers; expected {self.dim}")
        self.dim = len(vector)
        return unit(vector)

    async def _asked(self, text: str) -> bytes:
        """Return the response body. Raises `ValueError` for a compressed one, which could expand without bound, and for
        one of more than `MOST_BYTES`."""
        asked = {"model": self._model, "input": text}
        body = bytearray()
        async with self._client.stream("POST", self._url, json=asked) as answer:
            answer.raise_for_status()
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("embeddings API packed its answer, which was not asked for")
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError(f"embeddings API answered more than {MOST_BYTES} bytes")
        return bytes(body)

    async def start(self) -> None:
        """Do nothing: the API is first called at the first look-up."""

    async def close(self) -> None:
        await self._client.aclose()


def read_vector(body: bytes) -> Vector:
    """Parse the one vector of a response, float32 [dim]. Raises `ValueError` for anything but a list of numbers (no
    booleans), for a number beyond `LARGEST`, and for a vector shorter than `SHORTEST`."""
    found = orjson.loads(body)
    data = found.get("data") if type(found) is dict else None
    first = data[0] if type(data) is list and len(data) == 1 else None
    numbers = first.get("embedding") if type(first) is dict else None
    if type(numbers) is not list or not 1 <= len(numbers) <= MOST_DIM:
        raise ValueError(f"embeddings API answered no single vector of 1 to {MOST_DIM} numbers")
    if not all(type(number) in (int, float) and -LARGEST <= number <= LARGEST for number in numbers):
        raise ValueError(f"embeddings API answered a vector with what is no number of at most {LARGEST:g}")
    if math.sqrt(sum(number * number for number in numbers)) < SHORTEST:
        raise ValueError("embeddings API answered a vector without a direction")
    return np.asarray(numbers, np.float32)


class ServedEmbedder:
    """Pooled hidden states of a model that the gateway itself serves; `bind` says how to get them.

    Of a causal model they tell little: with the bundled one hard negatives lie nearer (median cosine 0.95) than
    rewordings do (0.80; from 0.39 on). The threshold keeps out what is unlike; the guard decides.
    """

    threshold = 0.35

    def __init__(self, model: str | None = None) -> None:
        self.model = model
        self.dim = 0
        self._embed: Callable[[str], Awaitable[Vector]] | None = None
        self._identity: Callable[[], str] = str

    @property
    def name(self) -> str:
        return f"served-{self._identity()}"

    def bind(self, embed: Callable[[str], Awaitable[Vector]], identity: Callable[[], str]) -> None:
        """Set the function that embeds. `identity` returns name and version of the current model: vectors of different
        versions are never compared."""
        self._embed, self._identity = embed, identity

    async def embed(self, text: str) -> Vector:
        if self._embed is None:
            raise Overloaded("the model that embeds is not loaded yet", retry_after_s=1)
        vector = unit(np.asarray(await self._embed(text), np.float32))
        self.dim = len(vector)
        return vector
