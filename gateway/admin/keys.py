"""Keys and the limits of teams, for operators: `/admin/keys` and `/admin/teams`."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from sluicegate.gateway.accounts.changes import audit_facts, create, revoke, rotate
from sluicegate.gateway.accounts.parsing import LISTS
from sluicegate.gateway.accounts.records import KeyRecord, limits_of, moment, new_secret
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import ALLOW_LISTS, EMPTY_LIST, MAX_LIMIT
from sluicegate.plugins import ConfigurationError, RequestError

Name = Annotated[str, Field(min_length=1, max_length=256)]
ShortName = Annotated[str, Field(max_length=256)]
Names = Annotated[list[Name], Field(max_length=256)]


class LimitsBody(StrictBody):
    """None = no limit."""

    requests_per_minute: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    concurrency: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    budget_day: Annotated[float, Field(ge=0, le=MAX_LIMIT, allow_inf_nan=False)] | None = None
    budget_month: Annotated[float, Field(ge=0, le=MAX_LIMIT, allow_inf_nan=False)] | None = None
    run_calls: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    run_tokens: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    run_cost: Annotated[float, Field(ge=0, le=MAX_LIMIT, allow_inf_nan=False)] | None = None
    run_s: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None
    run_depth: Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None = None


class NewKey(StrictBody):
    """`expires` is an ISO 8601 date or time. An allow list that is absent allows everything."""

    id: Name
    tenant: ShortName = ""
    team: ShortName = ""
    scopes: Names = Field(default=[])
    models: Names | None = None
    tools: Names | None = None
    mcp: Names | None = None
    routes: Names | None = None
    rails: Names = Field(default=[])
    expires: str | None = None
    limits: LimitsBody = LimitsBody()


class Rotation(StrictBody):
    grace_s: Annotated[float, Field(ge=0, le=30 * 86400)] = 86400.0


def add_key_routes(router: APIRouter, runtime: Runtime) -> None:
    accounts = runtime.accounts

    @router.get("/admin/keys", tags=["admin"])
    async def keys(request: Request) -> Any:
        """List all keys, without their secrets."""
        operator_of(runtime, request)
        data = [_shown(record) for record in accounts.keyring.records.values()]
        return {"data": data, "kept": runtime.settings.keeps_keys}

    @router.post("/admin/keys", tags=["admin"])
    async def new_key(request: Request, asked: NewKey) -> Any:
        """Create a key. Its secret is the answer's `key`, which is shown only this once."""
        by = operator_of(runtime, request)
        runtime.check_store()
        lists = _lists(asked)
        record, secret = create(
            accounts,
            asked.id,
            limits=limits_of(asked.limits.model_dump()),
            expires=_expiry(asked.expires),
            tenant=asked.tenant,
            team=asked.team,
            **lists,
        )
        async with runtime.audit.change(name_of(by), "keys.create", record.id, **audit_facts(record)):
            await accounts.add_key(record)
        return {**_shown(record), "key": secret}

    @router.delete("/admin/keys/{key_id}", tags=["admin"])
    async def revoke_key(request: Request, key_id: str) -> Any:
        """Refuse a key from now on."""
        by, found = operator_of(runtime, request), accounts.key(key_id)
        async with runtime.audit.change(name_of(by), "keys.revoke", found.id):
            record = await accounts.change_key(key_id, revoke)
        return _shown(record)

    @router.post("/admin/keys/{key_id}/rotate", tags=["admin"])
    async def rotate_key(request: Request, key_id: str, asked: Rotation) -> Any:
        """Give a key a new secret. The old one stays good for `grace_s` seconds."""
        by, secret = operator_of(runtime, request), new_secret()
        rotate(accounts.key(key_id), secret, asked.grace_s)  # what is known to be refused is no change to write down
        async with runtime.audit.change(name_of(by), "keys.rotate", key_id, grace_s=asked.grace_s):
            record = await accounts.change_key(key_id, lambda found: rotate(found, secret, asked.grace_s))
        return {**_shown(record), "key": secret}

    @router.put("/admin/keys/{key_id}/limits", tags=["admin"])
    async def key_limits(request: Request, key_id: str, asked: LimitsBody) -> Any:
        """Set the limits of a key from now on."""
        by, before = operator_of(runtime, request), accounts.key(key_id)
        limits = limits_of(asked.model_dump())
        change = {
            "before": before.public()["limits"],
            "limits": dataclasses.replace(before, limits=limits).public()["limits"],
        }
        async with runtime.audit.change(name_of(by), "keys.limits", key_id, **change):
            record = await accounts.change_key(key_id, lambda found: dataclasses.replace(found, limits=limits))
        return _shown(record)

    @router.get("/admin/teams", tags=["admin"])
    async def teams(request: Request) -> Any:
        """List teams and their limits."""
        operator_of(runtime, request)
        return {"data": [{"team": name, "limits": limits} for name, limits in accounts.teams.items()]}

    @router.put("/admin/teams/{name:path}", tags=["admin"])
    async def team_limits(request: Request, name: Name, asked: LimitsBody) -> Any:
        """Set the limits of a team from now on."""
        by = operator_of(runtime, request)
        runtime.check_store()
        limits = asked.model_dump(exclude_none=True)
        async with runtime.audit.change(name_of(by), "teams.limits", name, limits=limits):
            await accounts.change_team(name, limits_of(asked.model_dump()))
        return {"team": name, "limits": accounts.teams[name]}


def _lists(asked: NewKey) -> dict[str, tuple[str, ...]]:
    """Return the lists of a new key. Raises `RequestError` for an allow list that allows nothing."""
    if empty := next((name for name in ALLOW_LISTS if getattr(asked, name) == []), None):
        raise RequestError(EMPTY_LIST.format(f"`{empty}`"), param=empty)
    return {name: tuple(getattr(asked, name) or ()) for name in LISTS}


def _shown(record: KeyRecord) -> dict[str, Any]:
    return {**record.public(), "state": record.state(time.time())}


def _expiry(text: str | None) -> float | None:
    try:
        return moment(text, "`expires`") if text else None
    except ConfigurationError as error:
        raise RequestError(error.message, param="expires") from error
