"""`/v1/models`: what is served here."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound


def add_model_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models")
    async def models(request: Request) -> Any:
        runtime.identify(api_key_of(request))
        return {"object": "list", "data": [_card(runtime, name) for name in runtime.models]}

    @router.head("/v1/models/{name:path}", include_in_schema=False)
    @router.get("/v1/models/{name:path}")
    async def model(request: Request, name: str) -> Any:
        runtime.identify(api_key_of(request))
        if name not in runtime.models:
            served = ", ".join(sorted(runtime.models))
            raise NotFound(f"there is no model {name!r} here; served: {served}", param="model", code="model_not_found")
        return _card(runtime, name)


def _card(runtime: Runtime, name: str) -> dict[str, Any]:
    model = runtime.models[name]
    return {
        "id": name,
        "object": "model",
        "created": runtime.started_s,
        "owned_by": "sluicegate",
        "max_model_len": model.context_length,
        "version": model.version,
        "parent": model.base,
        "default_sampling": {"temperature": model.default_temperature, **model.defaults},
        "notes": list(model.notes),
    }
