"""A replica of the deployment `engine`: models and grammars, asked by gateways."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack

from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.lifecycle import close, start
from sluicegate.gateway.ray_serve.inside import answers
from sluicegate.gateway.ray_serve.messages import AnswerHead, EngineFacts, EngineModel, EngineRequest
from sluicegate.gateway.ray_serve.parts import engine_part
from sluicegate.gateway.server import settle_process
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ServiceError, TroubleReporter
from sluicegate.plugins.compiled.builder import compiling

FIRST_TEXTS_S = 10.0
"""First texts of this period are reported."""


class EngineReplica:
    """Called by Ray Serve, on one event loop."""

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]  # Ray Serve awaits it
        """Return once all models are loaded and warm. Raises what kept them from it."""
        own = engine_part(settings)
        self._first_texts: deque[tuple[float, float]] = deque(maxlen=10_000)
        """(when, seconds to the first piece of the body)"""
        self._open = ExitStack()
        self._open.enter_context(compiling(own.server.compile))
        self._runtime = compose(own, os.environ)
        self._app = create_app(own, runtime=self._runtime)
        await start(self._runtime)
        if self._runtime.progress.failure is not None:
            raise self._runtime.progress.failure
        settle_process()

    async def facts(self) -> EngineFacts:
        models = self._runtime.served_models
        return EngineFacts({name: EngineModel(one.version, one.context_length) for name, one in models.items()})

    async def answer(self, request: EngineRequest) -> AsyncIterator[AnswerHead | bytes]:
        began, first = time.monotonic(), True
        async for part in answers(self._app, request):
            if first and isinstance(part, bytes):
                first = False
                now = time.monotonic()
                self._first_texts.append((now, now - began))
            yield part

    def record_autoscaling_stats(self) -> Mapping[str, float]:
        """Return the load. Ray Serve calls this again and again; the names are the fields of `EngineLoad`."""
        stats = self._runtime.pipeline.stages.generate[1].stats()
        since = time.monotonic() - FIRST_TEXTS_S
        late = sorted(took for at, took in self._first_texts if at >= since)
        return {
            "running": stats["requests_running"],
            "waiting": stats["requests_waiting"],
            "kv_usage": stats["kv_cache_usage_ratio"],
            "first_text_s": late[len(late) * 9 // 10] if late else 0.0,
        }

    async def check_health(self) -> None:
        """Raise where the engine does not come back by itself: Ray Serve then starts another replica."""
        generator = self._runtime.pipeline.stages.generate[1]
        refusing = (
            [one.reason for one in generator.troubles() if one.refuses]
            if isinstance(generator, TroubleReporter)
            else []
        )
        if refusing:
            raise ServiceError(f"the engine serves nothing: {refusing[0]}")

    async def __del__(self) -> None:
        if hasattr(self, "_runtime"):
            await close(self._runtime)
            self._open.close()
