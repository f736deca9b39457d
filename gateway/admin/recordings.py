"""Recorded requests, for operators: listed without texts, asked again, deleted."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from sluicegate.gateway.admin.review import SCOPE as REVIEW
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.recording.recorder import RequestRecorder
from sluicegate.gateway.recording.replaying import replayed
from sluicegate.gateway.recording.store import Chosen
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound, RequestError

Word = Annotated[str, Query(min_length=1, max_length=256)]


class Replaying(StrictBody):
    """`reveal`: values and texts too, for keys with the scope `review` or `admin`."""

    model: Annotated[str, Field(max_length=256)] = ""
    policy: Annotated[str, Field(max_length=256)] = ""
    reveal: bool = False


def add_recording_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/recordings", tags=["admin"])
    async def listing(
        request: Request,
        key: Word | None = None,
        tenant: Word | None = None,
        user: Word | None = None,
        since_s: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Any:
        """List recordings, newest first."""
        operator_of(runtime, request, REVIEW)
        found = await recorder_in(runtime).listed(_chosen(key, tenant, user), since_s, limit)
        return {"object": "list", "data": [dataclasses.asdict(one) for one in found]}

    @router.post("/admin/recordings/{id}/replay", tags=["admin"])
    async def replay(request: Request, id: str, asked: Replaying = Replaying()) -> Any:
        """Replay a recording: return what would be answered now, beside what was answered then."""
        by, recorder = name_of(operator_of(runtime, request, REVIEW)), recorder_in(runtime)
        async with runtime.audit.change(by, "recordings.replay", id, **asked.model_dump()):
            recording, body = await recorder.get(id)
            found = await replayed(
                runtime.pipeline,
                recording,
                body,
                runtime.accounts.prices.cost_nanos,
                model=asked.model,
                policy=asked.policy,
                reveal=asked.reveal,
            )
        return {"id": id, "at_s": recording.at_s, **found}

    @router.delete("/admin/recordings", tags=["admin"])
    async def delete(
        request: Request,
        key: Word | None = None,
        tenant: Word | None = None,
        user: Word | None = None,
        id: Word | None = None,
    ) -> Any:
        """Delete the recordings of a key, of a tenant or one of its users, or a single one, with the keys that they
        were sealed under."""
        by, recorder = name_of(operator_of(runtime, request)), recorder_in(runtime)
        if (id is None) == (key is None and tenant is None):
            raise RequestError("say whose: give `key`, `tenant` (with `user`), or the `id` of one", param="key")
        chosen = _chosen(key, tenant, user)
        whose = {"key": key, "tenant": tenant, "has_user": user is not None, "id": id}
        async with runtime.audit.change(by, "recordings.delete", "", **whose) as came:
            came["deleted"] = await (recorder.delete(chosen) if id is None else recorder.delete_one(id))
        return {"deleted": came["deleted"]}


def _chosen(key: str | None, tenant: str | None, user: str | None) -> Chosen:
    """Return which recordings are meant. Raises `RequestError` for a user without a tenant."""
    if user is not None and tenant is None:
        raise RequestError("a `user` is one of a `tenant`; give both", param="tenant")
    return Chosen(key, tenant, user)


def recorder_in(runtime: Runtime) -> RequestRecorder:
    if runtime.recorder is None:
        raise NotFound("nothing is recorded here ([recording] enabled = false)", code="recording_off")
    return runtime.recorder
