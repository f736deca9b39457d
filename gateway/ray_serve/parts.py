"""What one configuration means for the two deployments: everything but the engine for one, the engine for the other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.gateway.ray_serve.messages import EngineModel
from sluicegate.gateway.settings import (
    AccountSettings,
    AuditSettings,
    BatchSettings,
    DatabaseSettings,
    FeedbackSettings,
    GrpcSettings,
    PipelineSettings,
    RecordingSettings,
    RetrievalSettings,
    ReviewSettings,
    RoutingSettings,
    Settings,
    TelemetrySettings,
)
from sluicegate.plugins import ConfigurationError

ENGINE, UPSTREAM = "engine", "upstream"
MODELS_AT_ONCE = 10_000
"""Most requests of one gateway at the engines; limits of keys and models apply before."""
NEVER = 1_000_000_000
"""Failures that open a breaker: practically never, since Serve itself avoids unhealthy replicas."""
REPLICAS = 1024
"""Most replicas on one machine."""


def check_for_ray(settings: Settings) -> None:
    """Refuse settings that several replicas, or Serve's proxy, cannot carry out: raises `ConfigurationError`."""
    server, ray = settings.server, settings.ray
    if settings.grpc.enabled:
        raise ConfigurationError(
            "[grpc] enabled cannot be served by replicas of Ray Serve, which would share one port; set it to false, or "
            "run `sluicegate serve` beside"
        )
    if server.tls_client_ca:
        raise ConfigurationError(
            "[server] tls_client_ca is not enforced by Ray Serve's proxy; put a proxy that checks certificates of "
            "clients in front, and leave it out"
        )
    named = settings.kept_by_one
    if max(ray.gateway.replicas, ray.gateway.most_replicas) > 1 and named:
        raise ConfigurationError(
            f"{named[0]} is kept by one gateway alone, and [ray.gateway] asks for several; set [database] url instead"
        )


def unshared(settings: Settings) -> Sequence[str]:
    """Return what several gateways would each count or keep for themselves, in words."""
    if max(settings.ray.gateway.replicas, settings.ray.gateway.most_replicas) == 1 or settings.database.url:
        return ()
    found = ["files, batches, reviews and changed weights are each gateway's own: set [database] url"]
    if not settings.accounts.url:
        found.append(
            "limits, budgets and usage are counted by each gateway alone: set [database] url or [accounts] url"
        )
    return found


def has_engine(settings: Settings) -> bool:
    """Return whether models are loaded here; else the gateways ask other servers alone."""
    return ENGINE in settings.pipeline.generate


def engine_part(settings: Settings) -> Settings:
    """Return what an engine's replica serves: grammars and models, for gateways that have checked everything else."""
    pipeline = PipelineSettings(
        admit=(),
        screen=(),
        assemble=settings.pipeline.assemble,
        recall=(),
        constrain=settings.pipeline.constrain,
        generate=(ENGINE,),
        moderate=(),
        record=("metrics",),
    )
    return replace(
        settings,
        server=replace(settings.server, host="127.0.0.1", deadline_s=0.0),
        pipeline=pipeline,
        keys=(),
        accounts=AccountSettings(),
        routing=RoutingSettings(),
        batches=BatchSettings(),
        database=DatabaseSettings(),
        retrieval=RetrievalSettings(),
        grpc=GrpcSettings(),
        telemetry=TelemetrySettings(console=False),
        review=ReviewSettings(enabled=False),
        audit=AuditSettings(),
        feedback=FeedbackSettings(enabled=False),
        recording=RecordingSettings(),
        mcp=McpSettings(),
        policies={},
        policy_file="",
    )


def gateway_part(settings: Settings, models: Mapping[str, EngineModel], address: str, key_env: str) -> Settings:
    """Return what a gateway's replica serves. `models` by the names that the engines serve; `address`: where the
    engines are to be reached in this process; `key_env`: names the variable with its key."""
    accounts, telemetry = settings.accounts, settings.telemetry
    found = replace(
        settings,
        accounts=replace(accounts, journal=own_folder(accounts.journal, "[accounts] journal")),
        telemetry=replace(telemetry, history=own_folder(telemetry.history, "[telemetry] history")),
    )
    if not has_engine(settings):
        return found
    far = {
        name: {
            "url": address,
            "dialect": "vllm",
            "allow_private": True,
            "api_key_env": key_env,
            "version": model.version,
            "context_length": model.context_length,
            "max_connections": MODELS_AT_ONCE,
            "failures_to_open": NEVER,
        }
        for name, model in models.items()
    }
    stages = {name: table for name, table in settings.stages.get("generate", {}).items() if name != ENGINE}
    stages[UPSTREAM] = {**stages.get(UPSTREAM, {}), "models": {**stages.get(UPSTREAM, {}).get("models", {}), **far}}
    names = [UPSTREAM if name == ENGINE else name for name in settings.pipeline.generate]
    generate = tuple(dict.fromkeys(names))
    return replace(
        found, pipeline=replace(settings.pipeline, generate=generate), stages={**settings.stages, "generate": stages}
    )


def own_folder(folder: str, setting: str) -> str:
    """Return the first folder below `folder` that no other replica of this machine has: a replica that takes the place
    of a killed one finds, and writes down, what that one had not. It stays ours until the process ends."""
    if not folder:
        return ""
    for number in range(REPLICAS):
        own = Path(folder) / str(number)
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _claimed(own.with_suffix(".lock")):
            return str(own)
    raise ConfigurationError(f"{setting}: all {REPLICAS} folders of {folder!r} are in use")


def _claimed(path: Path) -> bool:
    """Lock a file that is never closed: the kernel unlocks it however this process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
