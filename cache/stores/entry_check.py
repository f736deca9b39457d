"""Check an entry from a store outside this process, field by field, before it is used as an answer.

The digest of an entry is no signature: anyone who may write to the store can make one. So types, ranges and lengths are
checked as in untrusted input, and an invalid entry is a miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from sluicegate.cache.entries import MAX_LABEL_CHARS, MAX_TAGS, CacheEntry
from sluicegate.plugins import CLOSED_BY, Answer, FinishReason, TokenLogprob, ToolCall, Usage

MAX_ENTRY_BYTES = 16 << 20
"""More than any entry has."""
MAX_ANSWERS = 1024
MAX_ITEMS = 1 << 20
MAX_COUNT = 10**9
MAX_QUESTION_CHARS = 8192
LABELS = MAX_TAGS + 3
LABEL_CHARS = MAX_LABEL_CHARS + 64
FINISHES: frozenset[str] = frozenset(get_args(FinishReason))
T = TypeVar("T")


class CorruptEntry(ValueError):
    """Bytes that are no entry of this key."""


def checked(value: Any) -> tuple[CacheEntry, dict[str, str]]:
    """Return the entry and the epochs it was made under. Raises `CorruptEntry` for anything malformed."""
    fields = _is(value, dict)
    answers = tuple([_answer(flat) for flat in _items(fields.get("a"), MAX_ANSWERS)])
    if not answers or len({answer.index for answer in answers}) != len(answers):
        raise CorruptEntry("an entry without answers, or with two of one place")
    labels = tuple([_text(name, LABEL_CHARS) for name in _items(fields.get("l"), LABELS)])
    usage = [_count(number) for number in _items(fields.get("u"), 2)]
    if len(usage) != 2:
        raise CorruptEntry("an entry without its usage")
    question = _text(fields.get("q", ""), MAX_QUESTION_CHARS)
    return CacheEntry(answers, _number(fields.get("t")), labels, Usage(*usage), question), _epochs(fields.get("e"))


def _epochs(value: Any) -> dict[str, str]:
    found: Mapping[Any, Any] = _is(value, dict)
    if len(found) > LABELS + 1:
        raise CorruptEntry("an entry of too many epochs")
    return {_text(name, LABEL_CHARS): _text(epoch, 64) for name, epoch in found.items()}


def _answer(value: Any) -> Answer:
    flat = _items(value, 8)
    if len(flat) not in (4, 8):
        raise CorruptEntry("an answer of another version")
    index, text, finish, logprobs, reasoning, calls, closed, stop = [*flat, "", [], "", ""][:8]
    if closed not in CLOSED_BY or _is(finish, str) not in FINISHES or not 0 <= _is(index, int) < MAX_ANSWERS:
        raise CorruptEntry("an answer with no end, or of no place")
    entries = tuple([_logprob(one) for one in _items(logprobs, MAX_ITEMS)])
    called = tuple([_call(one) for one in _items(calls, MAX_ANSWERS)])
    said = index, _text(text), finish, entries, None, _text(reasoning), called
    return Answer(*said, closed=closed, stopped_by=_text(stop))


def _call(value: Any) -> ToolCall:
    parts = _items(value, 3)
    if len(parts) != 3:
        raise CorruptEntry("a call that is none")
    return ToolCall(_text(parts[0], 512), _text(parts[1], 512), _text(parts[2]))


def _logprob(value: Any) -> TokenLogprob:
    parts = _items(value, 5)
    if len(parts) != 5:
        raise CorruptEntry("a log probability that is none")
    top = [_items(one, 4) for one in _items(parts[4], 1024)]
    if any(len(one) != 4 for one in top):
        raise CorruptEntry("an alternative that is none")
    return TokenLogprob(*_token(parts[:4]), tuple([_token(one) for one in top]))


def _token(parts: Sequence[Any]) -> tuple[int, str, bytes, float]:
    token, text, data, logprob = parts
    try:
        raw = bytes.fromhex(_text(data))
    except ValueError as error:
        raise CorruptEntry("bytes of a token that are none") from error
    if not -1 <= _is(token, int) <= MAX_COUNT:
        raise CorruptEntry("a token of no vocabulary")
    return token, _text(text), raw, _number(logprob)


def _is(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise CorruptEntry(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _items(value: Any, most: int) -> list[Any]:
    found: list[Any] = _is(value, list)
    if len(found) > most:
        raise CorruptEntry("a list that is too long")
    return found


def _text(value: Any, most: int = MAX_ENTRY_BYTES) -> str:
    if len(_is(value, str)) > most:
        raise CorruptEntry("a text that is too long")
    return str(value)


def _count(value: Any) -> int:
    if not 0 <= _is(value, int) <= MAX_COUNT:
        raise CorruptEntry("a count past all bounds")
    return int(value)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 1e15:
        raise CorruptEntry("a number that is none")
    return float(value)
