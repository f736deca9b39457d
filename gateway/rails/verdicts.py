"""Validate and bound the result of an input rail, which may be a third party's plug-in.

A rail may refuse, and replace texts; it changes nothing else of a request. An invalid result raises `TypeError` or
`ValueError`, which the pipeline treats as a failure of the rail (`StageFailed`).
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sluicegate.plugins import Mark, Message, Request, ScreenResult, Text, texts_of, with_texts
from sluicegate.safety import is_whole_text

ACTIONS = ("pass", "redact", "block", "escalate")
WORST = {"pass": 0, "redact": 1, "escalate": 2, "block": 3}
MAX_REASON, MAX_TOLD = 1_000, 300
"""Most characters of a reason, and of a reported one; longer ones are cut."""
MAX_GROWTH, MAX_NEW = 16, 1_000_000
"""A new text may have at most `MAX_GROWTH` times the characters of the one it replaces, and at most `MAX_NEW` more."""
MAX_MARKS, MAX_LABEL, MAX_CATEGORY = 10_000, 128, 64
MAX_RESTORE, MAX_PLACEHOLDER = 10_000, 200


def checked(found: Any, request: Request) -> ScreenResult:
    """Return `found` with `reason` and `told` cut to `MAX_REASON` and `MAX_TOLD` characters that can be sent. Raises
    `TypeError`, `ValueError`."""
    if not isinstance(found, ScreenResult) or found.action not in ACTIONS:
        raise TypeError(f"screen() answered {type(found).__name__}")
    if not isinstance(found.reason, str) or not isinstance(found.told, str):
        raise TypeError("`reason` and `told` must be strings")
    _check_score(found.score)
    _check_messages(found.messages, request)
    _check_texts(found, request)
    _check_restore(found.restore)
    _check_marks(found.marks)
    if found.action == "redact" and found.messages is None and not found.texts:
        raise TypeError("redact without messages")
    reason, told = _shown(found.reason, MAX_REASON), _shown(found.told, MAX_TOLD)
    if (reason, told) == (found.reason, found.told):
        return found
    return dataclasses.replace(found, reason=reason, told=told)


def _shown(text: str, most: int) -> str:
    """Return a text that any encoder takes, of at most `most` characters: half of a surrogate pair becomes `?`."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")


def _check_score(score: Any) -> None:
    if score is None:
        return
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise TypeError(f"`score` must be a number, found {type(score).__name__}")


def _check_messages(found: Any, request: Request) -> None:
    """Check that only contents and the arguments of calls differ, and not by gigabytes. Raises `ValueError`."""
    if found is None:
        return
    if not isinstance(found, tuple) or len(found) != len(request.messages):
        raise ValueError(f"{len(request.messages)} messages were to be screened, and other ones came back")
    for before, after in zip(request.messages, found, strict=True):
        if after is before:
            continue
        if _frame(after) != _frame(before):
            raise ValueError("a message came back with more changed than its text")
        _check_whole(after.content, *(call.arguments for call in after.tool_calls))
    _check_growth(_chars(found), _chars(request.messages))


def _frame(message: Any) -> Message:
    """Return the message without the parts that a rail may replace."""
    if not isinstance(message, Message) or not isinstance(message.content, str):
        raise TypeError(f"a message came back as {type(message).__name__}")
    if not all(isinstance(call.arguments, str) for call in message.tool_calls):
        raise TypeError("the arguments of a call came back as no text")
    calls = tuple(dataclasses.replace(call, arguments="") for call in message.tool_calls)
    return dataclasses.replace(message, content="", tool_calls=calls)


def _chars(messages: tuple[Message, ...]) -> int:
    return sum(len(m.content) + sum(len(call.arguments) for call in m.tool_calls) for m in messages)


def _check_whole(*texts: str) -> None:
    if not all(map(is_whole_text, texts)):
        raise ValueError("a text came back with half of a surrogate pair, which no encoding can send")


def _check_growth(after: int, before: int) -> None:
    if after > MAX_GROWTH * before + MAX_NEW:
        raise ValueError(f"{before} characters were to be screened, and {after} came back")


def _check_texts(found: ScreenResult, request: Request) -> None:
    if not isinstance(found.texts, Mapping):
        raise TypeError("`texts` must be a mapping from paths to texts")
    if not found.texts:
        return
    known = {text.path: text for text in texts_of(request)}
    for path, new in found.texts.items():
        if path not in known or not isinstance(new, str):
            raise ValueError("`texts` must give texts for paths of `texts_of(request)`")
        _check_whole(new)
    _check_growth(sum(map(len, found.texts.values())), sum(len(known[path].text) for path in found.texts))


def _check_restore(restore: Any) -> None:
    if not isinstance(restore, Mapping) or len(restore) > MAX_RESTORE:
        raise TypeError(f"`restore` must be a mapping of at most {MAX_RESTORE} placeholders")
    for name, value in restore.items():
        if not isinstance(name, str) or not isinstance(value, str) or not 0 < len(name) <= MAX_PLACEHOLDER:
            raise TypeError(f"a placeholder must be a text of 1 to {MAX_PLACEHOLDER} characters that stands for a text")
        _check_whole(name, value)


def _check_marks(marks: Any) -> None:
    if not isinstance(marks, tuple) or len(marks) > MAX_MARKS:
        raise TypeError(f"`marks` must be a tuple of at most {MAX_MARKS} marks")
    for mark in marks:
        if not isinstance(mark, Mark) or not isinstance(mark.label, str) or len(mark.label) > MAX_LABEL:
            raise TypeError(f"a mark must be a `Mark` with a label of at most {MAX_LABEL} characters")
        _check_whole(mark.label)
        if not isinstance(mark.start, int) or not isinstance(mark.end, int) or not 0 <= mark.start <= mark.end:
            raise TypeError("a mark must lie between two places of its text, in order")


def category_of(reason: str) -> str:
    """Return the category at the beginning of a reason, without the place, target or score that may follow."""
    return reason.partition(":")[0][:MAX_CATEGORY].strip() or "other"


def categories_of(result: ScreenResult) -> dict[str, int]:
    """Count what an input rail found, by category."""
    return dict(Counter(category_of(mark.label) for mark in result.marks)) if result.marks else {}


def applied(result: ScreenResult, request: Request) -> Request:
    """Return `request` with the new texts. Raises `ValueError` that names the place where a text must stay."""
    changed = with_texts(request, result.texts) if result.texts else request
    if result.messages is None:
        return changed
    both = zip(request.messages, changed.messages, result.messages, strict=True)
    messages = tuple(now if rail == old else dataclasses.replace(rail, name=now.name) for old, now, rail in both)
    return dataclasses.replace(changed, messages=messages)


# --- rails that know messages only ----------------------------------------------------------------------------------


def own_copy(request: Request) -> Request:
    """Copy what a plug-in could change in place: schemas and metadata."""
    return dataclasses.replace(
        request,
        tools=copy.deepcopy(request.tools),
        constraint=copy.deepcopy(request.constraint),
        parts=copy.deepcopy(request.parts),
        metadata=dict(request.metadata),
    )


def joined(first: ScreenResult, second: ScreenResult, texts: list[Text]) -> ScreenResult:
    """Combine two results of a rail: on the messages, and on `texts`, which it read as messages."""
    worst = max(first, second, key=lambda one: WORST[one.action])
    after = [text.text for text in texts] if second.messages is None else [m.content for m in second.messages]
    changes = {text.path: new for text, new in zip(texts, after, strict=True) if new != text.text}
    scores = [one.score for one in (first, second) if one.score is not None]
    return dataclasses.replace(
        worst,
        messages=first.messages,
        texts={**first.texts, **changes},
        score=max(scores, default=None),
        restore={**first.restore, **second.restore},
    )
