"""Ask the cases of a suite of one or two versions of a gateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import httpx

from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.eval.outcomes import CaseReply, reply_of
from sluicegate.gateway.commands.reasons import FAULTS, reason
from sluicegate.plugins import ConfigurationError

SchemaUse = Literal["enforced", "in_prompt", "none"]
TRIES = 8
LONGEST_WAIT_S = 30.0
OnDone = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Variant:
    """A version to ask. `schema`: whether the gateway enforces a case's schema, the model only reads it in a system
    message, or nobody hears of it. `plain`: send no field that only this gateway knows (then its cache may answer)."""

    name: str
    url: str
    model: str
    schema: SchemaUse = "enforced"
    key: str = ""
    plain: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskedCase:
    """`repeat` counts from 0; the request's seed was the run's plus this."""

    variant: str
    case: Case
    repeat: int
    reply: CaseReply


def variant_of(text: str, usual: Variant) -> Variant:
    """Read `NAME` or `NAME:model=...,url=...,schema=...,plain=true`. Raises `ConfigurationError`."""
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, sign, value = part.partition("=")
        if not sign or key not in ("model", "url", "schema", "key", "plain"):
            raise ConfigurationError(f"--variant {text!r}: {part!r} is none of model=, url=, schema=, key=, plain=")
        given[key] = value
    if given.get("schema", usual.schema) not in get_args(SchemaUse):
        raise ConfigurationError(f"--variant {text!r}: schema is one of {', '.join(get_args(SchemaUse))}")
    return Variant(
        name,
        given.get("url", usual.url).rstrip("/"),
        given.get("model", usual.model),
        given.get("schema", usual.schema),  # type: ignore[arg-type]  # checked above
        given.get("key", usual.key),
        given.get("plain", "").lower() in ("true", "1", "yes") or usual.plain,
        usual.request,
    )


async def ask_all(
    client: httpx.AsyncClient,
    variants: Sequence[Variant],
    cases: Sequence[Case],
    *,
    repeat: int,
    seed: int,
    parallel: int,
    on_done: OnDone,
) -> list[AskedCase]:
    """Ask every version every case, `repeat` times. Versions take turns, so that all meet the same load."""
    places, done = asyncio.Semaphore(parallel), 0
    todo = [(variant, case, again) for again in range(repeat) for case in cases for variant in variants]

    async def one(variant: Variant, case: Case, again: int) -> AskedCase:
        nonlocal done
        async with places:
            reply = await ask(client, variant, body_of(variant, case, seed + again))
        done += 1
        on_done(done, len(todo))
        return AskedCase(variant.name, case, again, reply)

    return list(await asyncio.gather(*(one(*task) for task in todo)))


def body_of(variant: Variant, case: Case, seed: int) -> dict[str, Any]:
    """Write the chat completion's body; what a case sets goes before what is usual."""
    messages: list[Mapping[str, Any]] = list(case.messages)
    body: dict[str, Any] = {"model": variant.model, "temperature": 0, "seed": seed}
    if case.schema is not None and variant.schema == "enforced":
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": case.schema}}
    if case.schema is not None and variant.schema == "in_prompt":
        told = f"Answer with JSON that follows this JSON Schema, and nothing else: {_compact(case.schema)}"
        messages = [{"role": "system", "content": told}, *messages]
    if case.tools:
        body["tools"] = list(case.tools)
    if not variant.plain:
        body["sluicegate"] = {"cache": False}
    return {**body, "messages": messages, **variant.request, **case.request}


def _compact(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


async def ask(client: httpx.AsyncClient, variant: Variant, body: Mapping[str, Any]) -> CaseReply:
    """Post one chat completion, again after a while where the gateway is busy."""
    headers = {"authorization": f"Bearer {variant.key}"} if variant.key else {}
    reply = CaseReply()
    for attempt in range(TRIES):
        began = time.perf_counter()
        try:
            answer = await client.post(f"{variant.url}/v1/chat/completions", json=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return CaseReply(error=reason(error))
        reply = reply_of(answer.status_code, _json(answer), time.perf_counter() - began)
        if answer.status_code not in (429, 503):
            return reply
        await asyncio.sleep(_wait_s(answer, attempt))
    return reply


def _wait_s(answer: httpx.Response, attempt: int) -> float:
    told = answer.headers.get("retry-after", "")
    return min(LONGEST_WAIT_S, float(told) if told.isdigit() else 2.0**attempt / 4)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def first_model(url: str, key: str) -> str:
    """Return the name of the first model of the gateway. Raises `ConfigurationError` where no gateway answers."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{url}/v1/models", headers=headers, timeout=10, trust_env=False)
        return str(answer.raise_for_status().json()["data"][0]["id"])
    except FAULTS as error:
        raise ConfigurationError(
            f"{url} names no model: {reason(error, '--key or SLUICEGATE_API_KEY')}; --url says where the gateway is"
        ) from error
