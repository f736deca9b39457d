"""Tries a stage of any slot: its methods, and one pass through them with doubles around it.

Not covered, outside of the rails' slots: whether what a stage decides is right. That is for the author's own tests.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sluicegate.plugins.contract.answers import Answer, CacheKey
from sluicegate.plugins.contract.models import CompiledGrammar, Generation, Job, Matcher
from sluicegate.plugins.contract.names import SlotName
from sluicegate.plugins.contract.optional import Lifecycle, ReadingModel
from sluicegate.plugins.contract.requests import Caller, Constraint, Document, Prompt, Sampling
from sluicegate.plugins.errors import RequestError, TokenRejected
from sluicegate.plugins.registry import ATTRIBUTES, METHODS
from sluicegate.plugins.testing.doubles import MODEL, FakeModel, make_outcome, make_request
from sluicegate.plugins.testing.faults import Fault, first_of_each_kind, within
from sluicegate.plugins.testing.rails import LIMIT_S, check_rail
from sluicegate.plugins.testing.screens import check_screen


def check_stage(slot: SlotName, stage: Any) -> list[Fault]:
    """Find everything that is wrong with `stage`, one message of each kind; [] where nothing was found."""
    faults = _signatures(slot, stage)
    if faults:
        return faults
    if slot == "moderate":
        return check_rail(stage)
    if slot == "screen":
        return check_screen(stage)
    return first_of_each_kind(within(LIMIT_S, f"the stage of slot {slot!r}", lambda: asyncio.run(_tried(slot, stage))))


def _signatures(slot: SlotName, stage: Any) -> list[Fault]:
    faults = []
    for name, parameters in METHODS[slot].items():
        method = getattr(stage, name, None)
        told = f"{type(stage).__name__}.{name}({', '.join(parameters)})"
        if not callable(method):
            faults.append(Fault("shape", f"{told} is missing; a stage of slot {slot!r} needs it"))
            continue
        try:
            inspect.signature(method).bind(*parameters)
        except TypeError as error:
            faults.append(Fault("shape", f"{told} cannot be called like this: {error}"))
        except ValueError:  # written in C: no signature to look at
            continue
    attribute = ATTRIBUTES.get(slot)
    if attribute is not None and not hasattr(stage, attribute):
        faults.append(Fault("shape", f"`{attribute}` is missing; a stage of slot {slot!r} needs it"))
    return faults


async def _tried(slot: SlotName, stage: Any) -> list[Fault]:
    if isinstance(stage, Lifecycle):
        await stage.start()
    try:
        return [fault for fault in await _TRIALS[slot](stage) if fault is not None]
    finally:
        if isinstance(stage, Lifecycle):
            await stage.close()


async def _admit(stage: Any) -> list[Fault | None]:
    try:
        caller = await stage.admit(make_request(), Caller())
    except RequestError:
        return []
    return [_expect(isinstance(caller, Caller), f"admit() must answer a Caller, found {caller!r}")]


async def _route(stage: Any) -> list[Fault | None]:
    models = {name: FakeModel(name) for name in (MODEL, "other")}
    try:
        chosen = await stage.route(make_request(), Caller(), models)
    except RequestError:
        return []
    return [_expect(chosen in models, f"route() must name one of {sorted(models)}, found {chosen!r}", "untrue")]


async def _retrieve(stage: Any) -> list[Fault | None]:
    """Retrieve for a question, none at all, and a long one: each must give documents that could be shown, or an
    error."""
    faults: list[Fault | None] = []
    for text in ("Where is parcel 17?", "", "word " * 2000):
        try:
            found = await stage.retrieve(make_request(text), Caller(tenant="check-a"))
        except Exception as error:
            faults.append(_expect(not isinstance(error, AttributeError | NameError), f"retrieve() broke: {error!r}"))
            continue
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return [Fault("shape", f"retrieve() must answer a sequence of Documents, found {found!r}")]
        faults += [_of_document(one) for one in found]
        scores = [one.score for one in found if isinstance(one, Document)]
        faults.append(_expect(scores == sorted(scores, reverse=True), "documents must come best first", "untrue"))
    return faults


def _of_document(one: Any) -> Fault | None:
    if not isinstance(one, Document):
        return Fault("shape", f"retrieve() must answer Documents, found {one!r}")
    if not isinstance(one.text, str) or not one.text.strip() or not isinstance(one.source, str):
        return Fault("shape", f"a Document needs a text that is not empty, and a text as its source, found {one!r}")
    right = type(one.score) in (int, float) and math.isfinite(one.score)
    return _expect(right, f"the score of a Document must be a finite number, found {one.score!r}")


async def _assemble(stage: Any) -> list[Fault | None]:
    prompt = await stage.assemble(make_request(), FakeModel())
    if not isinstance(prompt, Prompt):
        return [Fault("shape", f"assemble() must answer a Prompt, found {prompt!r}")]
    whole = bool(prompt.token_ids) and all(isinstance(t, int) for t in prompt.token_ids)
    faults = [_expect(whole, f"token_ids must be the prompt's tokens, found {prompt.token_ids!r}")]
    try:
        await stage.assemble(make_request("word " * 5000), FakeModel())
    except RequestError:
        return faults
    return [
        *faults,
        Fault("untrue", "a prompt of 25,000 tokens for a context of 4,096 must raise ContextLengthExceeded"),
    ]


async def _recall(stage: Any) -> list[Fault | None]:
    digest = "0" * 64
    mine, theirs = CacheKey("check-a", MODEL, digest), CacheKey("check-b", MODEL, digest)
    kept = (Answer(0, "kept", "stop"),)
    faults = [
        _expect(await stage.look_up(theirs) is None, "look_up() of what nobody stored must answer None", "untrue")
    ]
    await stage.store(mine, kept)
    found = await stage.look_up(mine)
    faults.append(_expect(found in (None, kept), f"stored {kept!r}, found {found!r}", "untrue"))
    other = await stage.look_up(theirs)
    faults.append(_expect(other is None, "what one tenant stored was given to another; tell keys by tenant", "leaking"))
    return faults


async def _constrain(stage: Any) -> list[Fault | None]:
    model = FakeModel()
    try:
        grammar = await stage.compile(Constraint("choice", ("yes", "no")), model)
    except RequestError:
        return []  # it may refuse this kind, or a tokenizer that is none of `transformers`
    if not isinstance(grammar, CompiledGrammar):
        return [Fault("shape", f"compile() must answer a CompiledGrammar, found {grammar!r}")]
    matcher = grammar.matcher()
    if not isinstance(matcher, Matcher):
        return [Fault("shape", f"matcher() must answer a Matcher, found {matcher!r}")]
    row, again = (np.zeros((model.vocab_size + 31) // 32, dtype=np.int32) for _ in range(2))
    masked = matcher.fill_mask(row)
    faults = [_expect(not masked or bool(row.any()), "the first mask allows no token at all", "untrue")]
    matcher.accept(ord("y"))
    matcher.rollback(1)
    matcher.fill_mask(again)
    faults.append(_expect(bool((row == again).all()), "rollback(1) after accept() must give the same mask", "untrue"))
    if masked:
        faults.append(
            _expect(_refuses(matcher, ord("x")), "a token outside of the mask must raise TokenRejected", "untrue")
        )
    return faults


def _refuses(matcher: Matcher, token_id: int) -> bool:
    try:
        matcher.accept(token_id)
    except TokenRejected:
        return True
    return False


async def _generate(stage: Any) -> list[Fault | None]:
    if not isinstance(stage.models, Mapping) or not stage.models:
        return [Fault("shape", "`models` must be a mapping of at least one served model by name")]
    stats = stage.stats()
    needed = {"requests_running", "requests_waiting", "kv_cache_usage_ratio"}
    faults = [_expect(needed <= set(stats), f"stats() lacks {sorted(needed - set(stats))}")]
    name = next(iter(stage.models))
    job = Job("check", name, Prompt("Hello", tuple(b"Hello")), Sampling(max_tokens=16))
    if isinstance(stage.models[name], ReadingModel):
        return [*faults, await _refuses_to_write(stage, job)]
    generation: Generation = await stage.generate(job)
    ended = [piece.finish_reason async for piece in generation if piece.finish_reason is not None]
    faults.append(_expect(len(ended) == 1, f"one choice must end once with a finish_reason, found {ended}", "untrue"))
    generation.cancel()
    generation.cancel()
    return faults


async def _refuses_to_write(stage: Any, job: Job) -> Fault | None:
    try:
        await stage.generate(job)
    except RequestError:
        return None
    return Fault("untrue", f"{job.model!r} says that it writes nothing, so generate() must raise RequestError")


async def _record(stage: Any) -> list[Fault | None]:
    for outcome in (make_outcome(), make_outcome(answers=(), error="content_filter", time_to_first_chunk_s=None)):
        await stage.record(outcome)
    return []


def _expect(holds: bool, message: str, kind: Any = "shape") -> Fault | None:
    return None if holds else Fault(kind, message)


_TRIALS: Mapping[SlotName, Callable[[Any], Awaitable[list[Fault | None]]]] = {
    "admit": _admit,
    "route": _route,
    "retrieve": _retrieve,
    "assemble": _assemble,
    "recall": _recall,
    "constrain": _constrain,
    "generate": _generate,
    "record": _record,
}
