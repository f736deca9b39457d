"""What gateways send to engines through Ray, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A body in OpenAI's form. `beginnings`: digests of the prompt's beginnings, shortest first, for the router."""

    body: bytes
    headers: Headers
    beginnings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The first thing that comes back; bytes of the body follow."""

    status: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class EngineModel:
    """A model by what the engines say of it."""

    version: str
    context_length: int


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """`models` by the names that are served."""

    models: Mapping[str, EngineModel]
