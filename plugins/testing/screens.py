"""Tries an input rail against its contract, with requests instead of streams.

Not covered: what a rail that asks a service does with answers other than the ones it gets while it is tried.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

from sluicegate.plugins.contract.optional import Lifecycle
from sluicegate.plugins.contract.requests import Caller, Constraint, Message, Request, Sampling, Tool, ToolCall
from sluicegate.plugins.contract.slots import InputRail
from sluicegate.plugins.contract.texts import texts_of, with_texts
from sluicegate.plugins.contract.verdicts import RailExample, ScreenResult
from sluicegate.plugins.testing.doubles import make_request
from sluicegate.plugins.testing.faults import Fault, first_of_each_kind, within
from sluicegate.plugins.testing.rails import LIMIT_S, ORDINARY, promised, spans_of

BUDGET_S = 5.0
"""Time limit of one request, if the rail promises none: it may call a service, and only its own request waits."""


def check_screen(rail: InputRail, examples: Sequence[RailExample] | None = None) -> list[Fault]:
    """Find everything that is wrong with `rail`, one message of each kind. A text with a `forbidden` part must be
    refused, or redacted so that the part is gone; a harmless one must pass as it is."""
    given = promised(rail).examples if examples is None else tuple(examples)

    async def run() -> list[Fault]:
        if isinstance(rail, Lifecycle):
            await rail.start()
        try:
            return [fault async for fault in _all(rail, given)]
        finally:
            if isinstance(rail, Lifecycle):
                await rail.close()

    return first_of_each_kind(within(LIMIT_S, "the rail", lambda: asyncio.run(run())))


async def _all(rail: InputRail, given: Sequence[RailExample]) -> AsyncIterator[Fault]:
    for example in given:
        async for fault in _example(rail, example):
            yield fault
    for text in ORDINARY:
        _, faults = await _screened(rail, make_request(text))
        for fault in faults:
            yield fault
    if promised(rail).reads == "texts":
        for example in given:
            async for fault in _everywhere(rail, example):
                yield fault
    async for fault in _together(rail, [example.text for example in given] or list(ORDINARY)):
        yield fault


async def _example(rail: InputRail, example: RailExample) -> AsyncIterator[Fault]:
    result, faults = await _screened(rail, make_request(example.text))
    for fault in faults:
        yield fault
    if result is None or result.action in ("block", "escalate"):
        if result is not None and not example.forbidden:
            yield Fault("too-strict", f"the harmless text {example.text!r} got {result.action} ({result.reason})")
        return
    left = "\n".join(m.content for m in _left(make_request(example.text), result).messages)
    for start, end in spans_of(example):
        if example.text[start:end] in left:
            yield Fault("leaking", f"{example.text[start:end]!r} reached the model: action {result.action}")
    if not example.forbidden and left != example.text:
        yield Fault("too-strict", f"the harmless text {example.text!r} was changed to {left!r}")


async def _everywhere(rail: InputRail, example: RailExample) -> AsyncIterator[Fault]:
    """Check that a rail which reads all texts finds what is forbidden wherever it stands."""
    for part in example.forbidden:
        for place, request in with_text_everywhere(part):
            result, faults = await _screened(rail, request)
            for fault in faults:
                yield fault
            if result is None or result.action in ("block", "escalate"):
                continue
            left = [text.text for text in texts_of(_left(request, result))]
            if any(part in text for text in left):
                yield Fault("leaking", f"{part!r} reached the model at {place}: action {result.action}")


def _left(request: Request, result: ScreenResult) -> Request:
    """Return the request that the model gets; a redaction of a `fixed` text refuses the request, so that nothing of it
    is left."""
    messages = request.messages if result.messages is None else result.messages
    try:
        return with_texts(replace(request, messages=messages), result.texts)
    except ValueError:
        return make_request("")


def with_text_everywhere(text: str) -> Iterator[tuple[str, Request]]:
    """Yield (where, request) for the kinds of places in which a request has text."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": text}}}
    keyed = {"type": "object", "properties": {text: {"enum": [text]}}}
    call = ToolCall("c", "f", json.dumps({"a": text}))
    yield "a message's content", make_request(text)
    yield "a message's name", make_request(messages=(Message("user", "Hello", text),))
    yield "the arguments of a call", make_request(messages=(Message("assistant", "", tool_calls=(call,)),))
    yield "a call's name", make_request(messages=(Message("assistant", "", tool_calls=(ToolCall("c", text),)),))
    yield "a tool's description", make_request(tools=(Tool("f", text),))
    yield "a parameter's description", make_request(tools=(Tool("f", "", schema),))
    yield "a schema's keys and values", make_request(constraint=Constraint("json_schema", keyed))
    yield "a choice", make_request(constraint=Constraint("choice", ("a", text)))
    yield "a regular expression", make_request(constraint=Constraint("regex", text))
    yield "a stop string", make_request(sampling=Sampling(stop=(text,)))


async def _together(rail: InputRail, texts: Sequence[str]) -> AsyncIterator[Fault]:
    """Check that requests at the same time get the verdicts that they get one by one."""
    requests = [make_request(text) for text in texts]
    alone = [(await _screened(rail, request))[0] for request in requests]
    mixed = await asyncio.gather(*(_screened(rail, request) for request in requests))
    for text, one, (other, _) in zip(texts, alone, mixed, strict=True):
        if one is not None and other is not None and one.action != other.action:
            told = f"{text!r} alone got {one.action}, beside other requests {other.action}"
            yield Fault("shared-state", f"{told}; keep nothing of a request in the rail")


async def _screened(rail: InputRail, request: Request) -> tuple[ScreenResult | None, list[Fault]]:
    declared = promised(rail).budget_s
    budget_s = BUDGET_S if declared is None else declared
    text = request.messages[0].content
    started = perf_counter()
    try:
        async with asyncio.timeout(2 * budget_s + 1):
            result = await rail.screen(request, Caller())
    except TimeoutError:
        return None, [Fault("slow", f"screen() was not done after {2 * budget_s + 1:g} s on {text!r}")]
    except Exception as error:
        return None, [Fault("crashing", f"screen() raised {type(error).__name__}: {error} on {text!r}")]
    took_s = perf_counter() - started
    faults = list(_complaints(result, request))
    if took_s > budget_s:
        faults.append(Fault("slow", f"screen() took {took_s:.3g} s on {text!r}, the budget is {budget_s:g} s"))
    return (result if isinstance(result, ScreenResult) else None), faults


def _complaints(result: ScreenResult, request: Request) -> list[Fault]:
    if not isinstance(result, ScreenResult):
        return [Fault("shape", f"screen() must answer a ScreenResult, found {result!r}")]
    if result.action not in ("pass", "redact", "block", "escalate"):
        return [Fault("shape", f"action is {result.action!r}, must be pass, redact, block or escalate")]
    if result.action in ("block", "escalate") and not result.reason:
        return [Fault("untrue", f"{result.action} without a reason; the caller and the operator must be told why")]
    if result.action == "redact" and result.messages is None and not result.texts:
        return [Fault("untrue", "redact without `messages` or `texts`; answer the redacted texts")]
    if result.messages is None or all(map(_same_place, request.messages, result.messages)):
        return []
    return [Fault("untrue", "the redacted messages have other roles or another number than the request's")]


def _same_place(before: Message, after: Message) -> bool:
    return before.role == after.role and before.name == after.name
