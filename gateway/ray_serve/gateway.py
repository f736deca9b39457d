"""A replica of the deployment `gateway`: a whole gateway whose models are those of the engines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from typing import Any

from starlette.types import ASGIApp

from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.lifecycle import close, start
from sluicegate.gateway.ray_serve.bridge import Bridge
from sluicegate.gateway.ray_serve.messages import AnswerHead, EngineFacts, EngineModel, EngineRequest
from sluicegate.gateway.ray_serve.parts import gateway_part
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.server import settle_process
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.telemetry.logs import begin_log
from sluicegate.plugins.compiled.builder import compiling

KEY_ENV = "SLUICEGATE_ENGINE_KEY"
"""Holds, in this process only, the key of the bridge to the engines."""


class GatewayReplica:
    """Called by Ray Serve, on one event loop; `serve.ingress` gives it the HTTP of Serve's proxy."""

    async def __init__(self, settings: Settings, engines: Any = None) -> None:  # type: ignore[misc]  # Ray awaits it
        """Start a gateway, and return once requests can be served. `engines`: the handle of their deployment; None
        where the configuration has no models of its own. Raises what keeps it from serving."""
        begin_log(settings.server.log_level, settings.server.log_form)
        self._bridge = Bridge(EngineHandle(engines)) if engines is not None else None
        models: Mapping[str, EngineModel] = {}
        address = ""
        if self._bridge is not None:
            facts: EngineFacts = await engines.facts.remote()
            models = facts.models
            await self._bridge.open()
            os.environ[KEY_ENV], address = self._bridge.key, self._bridge.address
        own = gateway_part(settings, models, address, KEY_ENV)
        self._open = ExitStack()
        self._open.enter_context(compiling(own.server.compile))
        self._runtime: Runtime = compose(own, os.environ)
        self._app: ASGIApp = create_app(own, runtime=self._runtime)
        await start(self._runtime)
        if self._runtime.progress.failure is not None:
            raise self._runtime.progress.failure
        settle_process()

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return _without_lifespan(self._app)

    async def __del__(self) -> None:
        """Close the gateway. Ray Serve calls this once every open request has ended, or its grace is over."""
        if hasattr(self, "_runtime"):
            await close(self._runtime)
            self._open.close()
        if self._bridge is not None:
            await self._bridge.close()


def _without_lifespan(app: ASGIApp) -> ASGIApp:
    """Answer the lifespan's events in place of `app`: the replica has started all that the application's own lifespan
    would, and waited for it."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    return served


class EngineHandle:
    """The engines behind Ray Serve's router, as `Engines`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle.options(stream=True)

    def ask(self, request: EngineRequest) -> RayAnswer:
        return RayAnswer(self._handle.answer.remote(request))


class RayAnswer:
    """A `DeploymentResponseGenerator`, as `EngineAnswer`."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[AnswerHead | bytes]:
        found: AsyncIterator[AnswerHead | bytes] = self._response.__aiter__()
        return found

    def cancel(self) -> None:
        self._response.cancel()
