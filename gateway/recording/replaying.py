"""Replay a recorded request, and compare the answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluicegate.gateway.answer.json_values import leaves, same
from sluicegate.gateway.recording.recorder import Costs, facts_of, recorded_answers
from sluicegate.gateway.recording.store import ListedRecording, RecordingDamaged
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.review.items import request_from_json
from sluicegate.plugins import Caller, Request

PRIORITY = 20
TENANT = "replay"
COMPARED = (
    *("model", "version", "policy", "verdict", "cached"),
    *("prompt_tokens", "completion_tokens", "cost", "seconds"),
)
_ABSENT = object()


async def replayed(
    pipeline: Pipeline, recording: ListedRecording, body: Any, cost: Costs, *, model: str, policy: str, reveal: bool
) -> dict[str, Any]:
    """Run a recorded request again and compare the answers. `model`, `policy`: names, or empty for the model that
    answered then and the policy that claims the request now. Raises `NotFound` for a model, `RequestError` for an
    unknown policy, `RecordingDamaged`."""
    facts = recording.facts
    kept, answered = _read(recording, body)
    request = dataclasses.replace(
        kept,
        id=f"replay-{kept.id}",
        model=model or facts["model"] or facts["asked"],
        stream=False,
        cache=False,
        priority=PRIORITY,
        on_behalf_of=None,
        explain=False,
    )
    asker = Caller(tenant=facts["tenant"], key_id=facts["key_id"], team=facts["team"])
    exchange = await pipeline.replay(request, asker, Caller(tenant=TENANT), route=facts["route"], policy=policy)
    after, answers = facts_of(exchange, cost), recorded_answers(exchange)
    found = {
        "before": {name: facts[name] for name in COMPARED},
        "after": {name: after[name] for name in COMPARED},
        **difference(answered, answers),
    }
    return found if reveal else _without_values(found)


def _read(recording: ListedRecording, body: Any) -> tuple[Request, list[Mapping[str, Any]]]:
    """Read the request and its answers. Raises `RecordingDamaged` where another release kept other things."""
    try:
        answers = [_answer(one) for one in body["answers"]]
        missing = {*COMPARED, "asked", "tenant", "key_id", "team", "route"} - set(recording.facts)
        if missing:
            raise ValueError(f"no {', '.join(sorted(missing))}")
        return request_from_json(body["request"]), answers
    except (ValueError, TypeError, LookupError) as error:
        raise RecordingDamaged(recording.id) from error


def _answer(one: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = [{"name": str(call["name"]), "arguments": str(call["arguments"])} for call in one["calls"]]
    return {"text": str(one["text"]), "finish_reason": one["finish_reason"], "calls": calls}


def difference(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare answers. `same`: all answers say the same. `json`: both first ones are JSON, and `fields` is what differs
    between them."""
    same = len(before) == len(after) and all(_is_same(one, other) for one, other in zip(before, after, strict=True))
    found: dict[str, Any] = {"same": same, "json": False, "fields": []}
    if not before or not after:
        return found
    one, other = _value(before[0]), _value(after[0])
    if one is _ABSENT or other is _ABSENT:
        return {**found, "text": {"before": before[0]["text"], "after": after[0]["text"]}}
    return {**found, "json": True, "fields": list(changed_fields(one, other))}


def changed_fields(before: Any, after: Any) -> Iterator[dict[str, Any]]:
    """Yield the leaves that are new, gone or changed, each by its JSON pointer (RFC 6901)."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for path in sorted({*old, *new}):
        if path not in new:
            yield {"path": path, "change": "gone", "before": old[path]}
        elif path not in old:
            yield {"path": path, "change": "new", "after": new[path]}
        elif not same(old[path], new[path]):
            yield {"path": path, "change": "changed", "before": old[path], "after": new[path]}


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if [call["name"] for call in one["calls"]] != [call["name"] for call in other["calls"]]:
        return False
    texts = [(one["text"], other["text"])]
    texts += [(a["arguments"], b["arguments"]) for a, b in zip(one["calls"], other["calls"], strict=True)]
    return all(_same_text(a, b) for a, b in texts)


def _same_text(one: str, other: str) -> bool:
    if one == other:
        return True
    a, b = _parsed(one), _parsed(other)
    return a is not _ABSENT and b is not _ABSENT and same(a, b)


def _value(answer: Mapping[str, Any]) -> Any:
    """Return the object or list that the answer is. Where there is no text, read the arguments of the first call."""
    calls = answer["calls"]
    found = _parsed(calls[0]["arguments"] if calls and not answer["text"] else answer["text"])
    return found if isinstance(found, dict | list) else _ABSENT


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _ABSENT


def _without_values(found: dict[str, Any]) -> dict[str, Any]:
    fields = [{"path": one["path"], "change": one["change"]} for one in found["fields"]]
    return {name: value for name, value in found.items() if name != "text"} | {"fields": fields}
