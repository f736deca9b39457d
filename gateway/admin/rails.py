"""Rails, for operators: which ones run and how, what they said, and what they would make of a text."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from sluicegate.gateway.history.rail_counts import KEPT, SLICE_S
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.rails.policy import Policy, RailSlot
from sluicegate.gateway.request.context import Exchange, RequestOrigin, Safety
from sluicegate.gateway.request.guarding.trial import tried
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import TraceIds
from sluicegate.plugins import Message, NotFound, RequestTooLarge, Sampling, properties_of
from sluicegate.plugins import Request as Asked

MOST_CHARS = 100_000
"""Longest text to try: output rails read it character by character."""


class TriedText(StrictBody):
    """`read_as`: words of the user, or a text that a tool or a document brings. `policy`: by name."""

    text: Annotated[str, Field(min_length=1)]
    read_as: Literal["user", "document"] = "user"
    policy: Annotated[str, Field(max_length=256)] = "default"


def add_rail_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/rails", tags=["admin"])
    async def rails(request: Request) -> Any:
        """List every rail by slot, as each policy has it act."""
        operator_of(runtime, request)
        return {"data": list(_listed(runtime)), "policies": list(runtime.pipeline.stages.policies.names)}

    @router.get("/admin/rails/history", tags=["admin"])
    async def history(
        request: Request,
        last: Annotated[int, Query(ge=SLICE_S, le=SLICE_S * KEPT)] = 86400,
        slices: Annotated[int, Query(ge=1, le=500)] = 60,
    ) -> Any:
        """Count, over the last seconds, the verdicts by rail, and the requests in which a rail found something by
        category: in slices and in all. A week is kept, and outlives the gateway where `[telemetry] history` names a
        folder."""
        operator_of(runtime, request)
        return await asyncio.to_thread(runtime.history.rails, last, slices)

    @router.post("/admin/rails/try", tags=["admin"])
    async def try_text(request: Request, given: TriedText) -> Any:
        """Return what every rail would make of a text. Nothing is kept, counted or sent on."""
        by = operator_of(runtime, request)
        if len(given.text) > MOST_CHARS:
            raise RequestTooLarge(f"`text` has {len(given.text)} characters; at most {MOST_CHARS} are tried at a time")
        runtime.check_ready()
        exchange = _exchange(runtime, given, _policy(runtime, given.policy))
        exchange.caller = by
        began = time.perf_counter()
        found = [dataclasses.asdict(trial) for trial in await tried(exchange)]
        return {"policy": given.policy, "seconds": round(time.perf_counter() - began, 6), "data": found}


def _policy(runtime: Runtime, name: str) -> Policy:
    policies = runtime.pipeline.stages.policies
    found = policies.named(name)
    if found is None:
        raise NotFound(f"there is no policy {name!r}; there are: {', '.join(policies.names)}", param="policy")
    return found


def _exchange(runtime: Runtime, given: TriedText, policy: Policy) -> Exchange:
    """Build an exchange that stands for a request with this text, outside of the books, metrics and traces."""
    role: Literal["user", "tool"] = "user" if given.read_as == "user" else "tool"
    request = Asked(
        id=f"try-{uuid.uuid4().hex}",
        model="",
        messages=(Message(role, given.text),),
        nbytes=len(given.text),
        sampling=Sampling(max_tokens=1),
        cache=False,
    )
    entry = RequestOrigin(TraceIds(0, 0), runtime.pipeline.stages, "/admin/rails/try")
    return Exchange(entry, request, safety=Safety(policy=policy))


def _listed(runtime: Runtime) -> Any:
    stages = runtime.pipeline.stages
    slots: tuple[tuple[RailSlot, Any], ...] = (("screen", stages.screen), ("moderate", stages.moderate))
    policies = (stages.policies.default, *stages.policies.claiming)
    for slot, rails in slots:
        for name, rail in rails:
            properties, own = properties_of(rail), stages.policies.default.rail_policy(slot, name)
            yield {
                "slot": slot,
                "rail": name,
                "version": properties.version if properties is not None else None,
                "mode": own.mode,
                "failure_mode": own.failure_mode,
                "modes": {policy.name: policy.rail_policy(slot, name).mode for policy in policies},
                "out_of_the_way": stages.rail_health.is_open(slot, name),
            }
