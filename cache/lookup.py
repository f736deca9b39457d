"""What a request asks of the cache, and the result: immutable facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sluicegate.cache.entries import CacheEntry, labels_of
from sluicegate.cache.key import cache_key
from sluicegate.cache.semantic.tier import Probe, Trial
from sluicegate.plugins import Answer, CacheKey, Caller, Request, Usage

MAX_COMPARED_CHARS = 8192
"""Longer questions are answered by exact hits only: their vectors would take long and mean little."""


@dataclass(frozen=True, slots=True)
class CacheQuestion:
    """A look-up. `text` is compared by meaning; `scope` digests all the rest, which must be equal. `text` None: exact
    answers only."""

    key: CacheKey
    labels: tuple[str, ...] = ()
    scope: str = ""
    text: str | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class SharedResult:
    """The result of one generation, shared with the equal requests that waited for it."""

    answers: tuple[Answer, ...]
    usage: Usage


@dataclass(frozen=True, slots=True)
class CacheHit:
    """A kept answer. The caller must validate it against this request's schema and run this request's rails on it."""

    answers: tuple[Answer, ...]
    kind: Literal["exact", "semantic"]
    age_s: float
    entry: str
    """Id of the entry, for a report of a false hit."""
    score: float = 1.0
    """Cosine; 1 for an exact hit."""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    """Usage of the original generation, which this hit saves."""

    def headers(self) -> dict[str, str]:
        said = f"semantic; score={self.score:.3f}" if self.kind == "semantic" else "hit"
        return {
            "x-sluicegate-cache": said,
            "x-sluicegate-cache-entry": self.entry,
            "age": str(max(0, int(self.age_s))),
        }


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of a look-up, and after a miss the state that `remember` needs."""

    found: CacheHit | None = None
    epochs: Mapping[str, str] | None = None
    probe: Probe | None = None
    trial: Trial | None = None


def question_of(
    request: Request,
    caller: Caller,
    *,
    model: str,
    model_version: str,
    template_version: str = "",
    rails: str = "",
    scope: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    semantic: bool = False,
    threshold: float | None = None,
) -> CacheQuestion:
    """Return the question for the cache, with a key as from `cache_key`. Raises `ValueError` for too many tags.

    `tags` are what the answer can be withdrawn by later, and no part of the key. `semantic` asks for the semantic tier
    too. It is used for one choice without logprobs and a last message that is the user's, and not too long. The caller
    must know whether the likeliest token is always taken: text that is drawn has no business there."""
    parts: dict[str, Any] = {
        "model": model,
        "model_version": model_version,
        "template_version": template_version,
        "rails": rails,
        "scope": scope,
    }
    key = cache_key(request, caller, **parts)
    labels = labels_of(model_version, template_version, rails, tags)
    if not semantic or request.n != 1 or request.sampling.logprobs is not None or not request.messages:
        return CacheQuestion(key, labels)
    last = request.messages[-1]
    if last.role != "user" or len(last.content) > MAX_COMPARED_CHARS:
        return CacheQuestion(key, labels)
    rest = replace(request, messages=(*request.messages[:-1], replace(last, content="")))
    return CacheQuestion(key, labels, cache_key(rest, caller, **parts).digest, last.content, threshold)


def found_in(kept: CacheEntry, now_s: float, entry: str, score: float | None = None) -> CacheHit:
    kind: Literal["exact", "semantic"] = "exact" if score is None else "semantic"
    return CacheHit(kept.answers, kind, now_s - kept.stored_at_s, entry, 1.0 if score is None else score, kept.usage)
