"""Bounds of figures and names that every store can keep; values beyond them are cut and logged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sluicegate.gateway.accounts.records import USAGE_FIELDS, UsageKey, UsageSum, UsageTable
from sluicegate.plugins import Usage as Tokens

MAX_TOKENS = 1_000_000_000
"""Most tokens of one request, prompt or answer: a thousand times what any model reads."""
MAX_NANOS = 10**17
"""Highest cost of one request: a hundred million units of the currency."""
MAX_SUM = 2**62 - 1
"""Largest value of one row: two of them still add up within 64 bits."""
MAX_NAME = 256


def plausible(used: Tokens) -> bool:
    """Return whether a request can have used this much."""
    prompt, completion, cached = used.prompt_tokens, used.completion_tokens, used.cached_tokens
    return (
        type(prompt) is int
        and type(completion) is int
        and type(cached) is int
        and 0 <= cached <= prompt <= MAX_TOKENS
        and 0 <= completion <= MAX_TOKENS
    )


def bounded(used: Tokens) -> Tokens:
    """Return the nearest plausible usage; a value that is no number counts as 0."""
    prompt = _within(used.prompt_tokens, MAX_TOKENS)
    return Tokens(
        prompt_tokens=prompt,
        completion_tokens=_within(used.completion_tokens, MAX_TOKENS),
        cached_tokens=_within(used.cached_tokens, prompt),
    )


def bounded_sums(table: Mapping[UsageKey, UsageSum]) -> UsageTable:
    """Return `table` with each row cut, where needed, to what every store can add to its sums."""
    return {key: usage if _fits(usage) else _cut(usage) for key, usage in table.items()}


def is_count(value: object, most: int = MAX_SUM) -> bool:
    """Return whether a foreign value is a whole number in [0, `most`]."""
    return type(value) is int and 0 <= value <= most


def is_name(value: object) -> bool:
    """Return whether a foreign value can be the name of a key, team, feature or model."""
    return isinstance(value, str) and len(value) <= MAX_NAME and "\0" not in value


NO_ROUTE = "{!r} is no path: it begins with `/`, and has `*` at its end or nowhere; `*` alone is every path"


def is_route(path: str) -> bool:
    """Return whether `path` can be one that a key may call. What no path begins with locks the key out in silence."""
    return path == "*" or (path.startswith("/") and "*" not in path[:-1])


def name_of(text: str) -> str:
    """Return `text` as a name that every store can keep: cut to `MAX_NAME`, with other characters replaced by `?`."""
    if text.isascii() and len(text) <= MAX_NAME and "\0" not in text:
        return text
    return text[:MAX_NAME].encode("utf-8", "replace").decode().replace("\0", "?")


def _within(value: object, most: int) -> int:
    try:
        return max(0, min(int(value), most))  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return most if value == float("inf") else 0


def _fits(usage: UsageSum) -> bool:
    return all(is_count(getattr(usage, name)) for name in USAGE_FIELDS)


def _cut(usage: UsageSum) -> UsageSum:
    return dataclasses.replace(usage, **{name: _within(getattr(usage, name), MAX_SUM) for name in USAGE_FIELDS})
