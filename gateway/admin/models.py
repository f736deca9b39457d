"""Models and routes, for operators: what is served, which version answers, and the way back."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.rails.guard_model import check_unused
from sluicegate.gateway.routing.table import Route
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import ConfigurationError, LoadReporter, ModelLoadError, RequestError, ServedModel

Name = Annotated[str, Field(min_length=1, max_length=256)]


class NewModel(StrictBody):
    """`settings`: those of one model of the engine (`path`, `name` ...) or of an upstream (`url`, `name` ...)."""

    settings: dict[str, Any]
    replace: bool = False


class Weights(StrictBody):
    weights: Annotated[dict[Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]


class Rollback(StrictBody):
    revision: Annotated[str, Field(max_length=64)] | None = None


async def _added(runtime: Runtime, asked: NewModel) -> ServedModel:
    """Load a model. Raises `RequestError` for settings that are none, and for a model that they do not lead to."""
    try:
        return await runtime.shelf.add(asked.settings, replace=asked.replace)
    except (ConfigurationError, ModelLoadError) as error:
        raise RequestError(error.message, param="settings", code=error.code) from error


def add_model_admin_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/models", tags=["admin"])
    async def models(request: Request) -> Any:
        """List what is served, with versions and load."""
        operator_of(runtime, request)
        return {"data": [_model(runtime, name) for name in runtime.models]}

    @router.post("/admin/models", tags=["admin"])
    async def add_model(request: Request, asked: NewModel) -> Any:
        """Load beside what runs; `replace`: requests that run finish on the old one."""
        by = operator_of(runtime, request)
        runtime.check_shared()
        wanted = str(asked.settings.get("name") or asked.settings.get("path") or "")
        async with runtime.audit.change(name_of(by), "models.add", wanted, replace=asked.replace) as came:
            made = await _added(runtime, asked)
            came |= {"name": made.name, "version": made.version}
        return _model(runtime, made.name)

    @router.delete("/admin/models/{name:path}", tags=["admin"])
    async def remove_model(request: Request, name: str) -> Any:
        """Remove a model. New requests do not find it; those that run finish. A 409 where a rail judges with it."""
        by = operator_of(runtime, request)
        runtime.check_shared()
        async with runtime.audit.change(name_of(by), "models.remove", name):
            check_unused(name, runtime.stage_set.built["moderate"])
            await runtime.shelf.remove(name)
        return {"removed": name}

    @router.get("/admin/routes", tags=["admin"])
    async def routes(request: Request) -> Any:
        """List routes with their weights and their history."""
        operator_of(runtime, request)
        return {"data": [_route(name, route) for name, route in runtime.routes.routes.items()]}

    @router.put("/admin/routes/{name:path}/weights", tags=["admin"])
    async def weights(request: Request, name: str, asked: Weights) -> Any:
        """Set a route's weights from the next request on: A/B, canary, or all to one version."""
        by = operator_of(runtime, request)
        runtime.check_shared()
        change = {"before": _weights(runtime, name), "weights": asked.weights}
        async with runtime.audit.change(name_of(by), "routes.weights", name, **change):
            route = await runtime.routes.weigh(name, asked.weights, runtime.served_models, name_of(by))
        return _route(name, route)

    @router.post("/admin/routes/{name:path}/rollback", tags=["admin"])
    async def rollback(request: Request, name: str, asked: Rollback | None = None) -> Any:
        """Put the weights before the last change in force again. `revision`, as `GET /admin/routes` gives it: the state
        to go back from; if another is in force, nothing changes, and the answer is a 409."""
        by, before = operator_of(runtime, request), _weights(runtime, name)
        runtime.check_shared()
        async with runtime.audit.change(name_of(by), "routes.rollback", name, before=before) as came:
            route = await runtime.routes.roll_back(name, asked.revision if asked is not None else None)
            came["weights"] = dict(route.weights)
        return _route(name, route)


def _model(runtime: Runtime, name: str) -> dict[str, Any]:
    model, generator = runtime.models[name], runtime.pipeline.stages.generate[1]
    found: dict[str, Any] = {
        "id": name,
        "version": model.version,
        "context_length": model.context_length,
        "base": model.base,
        "remote": model.remote,
        "route": name in runtime.routes.routes,
    }
    if isinstance(generator, LoadReporter) and name in generator.models:
        found["load"] = dataclasses.asdict(generator.load(name))
    return found


def _route(name: str, route: Route) -> dict[str, Any]:
    settings = route.settings
    return {
        "name": name,
        "weights": dict(route.weights),
        "revision": route.history[-1].revision,
        "sticky": settings.sticky,
        "fallback": list(settings.fallback),
        "shadow": settings.shadow,
        "shadow_share": settings.shadow_share,
        "history": [{"weights": dict(c.weights), "at_s": c.at_s, "by": c.by} for c in route.history],
    }


def _weights(runtime: Runtime, name: str) -> dict[str, float]:
    route = runtime.routes.routes.get(name)
    return {} if route is None else dict(route.weights)
