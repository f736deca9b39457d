"""Withdrawing kept answers, and reporting a false hit. A tenant may do both to its own entries; `admin` to any."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from sluicegate.cache import LABEL_KINDS, label
from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import CacheKey, Caller, RequestError

Name = Annotated[str, Field(min_length=1, max_length=256)]


class Purge(StrictBody):
    """At most one of the names; with none everything of the tenant goes. `all_tenants` needs the scope `admin`."""

    model_config = ConfigDict(protected_namespaces=())
    tenant: Name | None = None
    all_tenants: bool = False
    tag: Name | None = None
    model_version: Name | None = None
    template_version: Name | None = None
    rails: Name | None = None


class FalseHit(StrictBody):
    """`entry` is what the answer's header `x-sluicegate-cache-entry` said."""

    entry: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    model: Name
    tenant: Name | None = None


def add_cache_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/cache/purge", tags=["cache"])
    async def purge(request: Request, asked: Purge) -> Any:
        """Withdraw kept answers; they are not served again, on any gateway that shares the store."""
        by = await _caller(runtime, request)
        tenant, which = None if asked.all_tenants else asked.tenant or by.tenant, _label(asked)
        whose = "all tenants" if tenant is None else tenant
        async with runtime.audit.change(name_of(by), "cache.purge", whose, label=which) as came:
            deleted = {name: await cache.purge(by, tenant=tenant, label=which) for name, cache in runtime.caches}
            came |= deleted
            await runtime.tell_others("purge", {"tenant": tenant, "label": which})
        return {"purged": deleted, "tenant": tenant}

    @router.post("/v1/cache/false_hits", tags=["cache"])
    async def false_hit(request: Request, asked: FalseHit) -> Any:
        """Report a wrong hit: withdraw that entry and count it."""
        by = await _caller(runtime, request)
        key = CacheKey(asked.tenant or by.tenant, asked.model, asked.entry)
        facts = {"tenant": key.tenant, "model": key.model}
        async with runtime.audit.change(name_of(by), "cache.false_hit", asked.entry, **facts):
            for _, cache in runtime.caches:
                await cache.report(by, key)
            await runtime.tell_others("false_hit", {**facts, "entry": key.digest})
        return {"reported": asked.entry}

    @router.get("/admin/cache", tags=["admin"])
    async def stats(request: Request) -> Any:
        """Return, in numbers, what each cache holds and has saved."""
        operator_of(runtime, request)
        return {name: dict(cache.stats()) for name, cache in runtime.caches}

    @router.get("/admin/cache/entries", tags=["admin"])
    async def entries(request: Request) -> Any:
        """Return whose entries each cache holds, and what hits saved since the start of this gateway."""
        operator_of(runtime, request)
        accounts = runtime.accounts
        known = {Caller().tenant, *(record.caller().tenant for record in accounts.keyring.records.values())}
        held = {name: await cache.held(known) for name, cache in runtime.caches}
        saved = [
            {"model": model, "tokens": tokens, "cost": nanos / NANOS}
            for model, (tokens, nanos) in sorted(accounts.saved.items())
        ]
        return {
            "caches": {name: None if found is None else [asdict(one) for one in found] for name, found in held.items()},
            "saved": saved,
            "currency": accounts.settings.currency,
            "since_s": runtime.started_s,
        }


async def _caller(runtime: Runtime, request: Request) -> Caller:
    """Return who calls. Where no keys exist, whoever sits at this machine is the operator."""
    caller = await admitted(runtime, request)
    return caller if runtime.keyed else operator_of(runtime, request)


def _label(asked: Purge) -> str | None:
    given = [(kind, name) for kind in LABEL_KINDS if (name := getattr(asked, kind)) is not None]
    if len(given) > 1:
        raise RequestError(f"name at most one of {', '.join(LABEL_KINDS)}; found {len(given)}", param=given[1][0])
    return label(*given[0]) if given else None
