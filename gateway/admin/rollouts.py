"""Rollouts, for operators: how far each is, what was decided and why, and what they want instead."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.rollout.observation import AnswerChecks
from sluicegate.gateway.rollout.progress import Action
from sluicegate.gateway.rollout.view import view
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import RolloutSettings
from sluicegate.plugins import ConfigurationError, NotFound, RequestError, read_settings

RolloutVerb = Literal["hold", "resume", "stop", "promote"]


class NewRollout(StrictBody):
    """`settings`: those of `[routing.models.NAME.rollout]`."""

    settings: dict[str, Any]


class RolloutOrder(StrictBody):
    reason: Annotated[str, Field(max_length=1000)] = ""


def add_rollout_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/rollouts", tags=["admin"])
    async def listing(request: Request) -> Any:
        """List every rollout as it stands."""
        operator_of(runtime, request)
        now = time.time()
        return {
            "data": [view(one, now) for one in runtime.rollouts.found.values()],
            "leads_here": runtime.rollouts.leads,
            "troubles": [trouble.reason for trouble in runtime.rollouts.troubles()],
        }

    @router.get("/admin/rollouts/{route:path}", tags=["admin"])
    async def one(request: Request, route: str) -> Any:
        """Return one rollout, with its tests and decisions."""
        operator_of(runtime, request)
        if (found := runtime.rollouts.found.get(route)) is None:
            raise NotFound(f"route {route!r} has no rollout", code="rollout_not_found")
        return view(found, time.time())

    @router.put("/admin/rollouts/{route:path}", tags=["admin"])
    async def begin(request: Request, route: str, asked: NewRollout) -> Any:
        """Begin a rollout: a canary that takes over by itself, or is withdrawn."""
        by = name_of(operator_of(runtime, request))
        runtime.check_shared()
        try:
            settings = read_settings(RolloutSettings, asked.settings, "settings")
            AnswerChecks(settings.checks, route)
        except ConfigurationError as error:
            raise RequestError(error.message, param="settings") from error
        async with runtime.audit.change(by, "rollouts.begin", route, settings=asked.settings):
            return view(await runtime.rollouts.begin(route, settings, by), time.time())

    @router.post("/admin/rollouts/{route:path}/{verb}", tags=["admin"])
    async def order(request: Request, route: str, verb: RolloutVerb, asked: RolloutOrder = RolloutOrder()) -> Any:
        """Command a rollout. `hold`: take no further step, until `resume`. `stop`: send all requests to the baseline;
        `promote`: to the canary."""
        by, action = name_of(operator_of(runtime, request)), _action(verb)
        runtime.check_shared()
        async with runtime.audit.change(by, f"rollouts.{verb}", route, reason=asked.reason):
            return view(await runtime.rollouts.command(route, action, by, asked.reason), time.time())


def _action(verb: RolloutVerb) -> Action:
    return verb
