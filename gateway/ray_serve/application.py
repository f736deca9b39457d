"""The Ray Serve application of a configuration, for `sluicegate deploy ray` and for `serve run`.

serve run sluicegate.gateway.ray_serve.application:build config=gateway.toml
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from sluicegate.gateway.config import load
from sluicegate.gateway.ray_serve.engine import EngineReplica
from sluicegate.gateway.ray_serve.gateway import GatewayReplica
from sluicegate.gateway.ray_serve.parts import check_for_ray, has_engine
from sluicegate.gateway.settings import RayEngineSettings, RayGatewaySettings, RaySettings, Settings

GATEWAY, ENGINE = "gateway", "engine"
OPEN_REQUESTS = 10_000
"""Most open requests of one replica. What really bounds them are the gateway's limits and the engine's queue, which
answer with an error that says why."""
GRACE_S = 5.0
"""Extra time beyond `drain_s`, for saving books and batches."""
HEALTH_S, HEALTH_LIMIT_S = 5.0, 30.0


def build(arguments: dict[str, str]) -> Any:
    """Build the application from `config=FILE` and this process's `SLUICEGATE_*` variables, as `serve run` calls it.
    Raises `ConfigurationError`."""
    path = arguments.get("config")
    return application(load(Path(path) if path else None, os.environ))


def application(settings: Settings) -> Any:
    """Return gateways in front of engines, or gateways alone where the configuration loads no models. Settings travel
    to the replicas as they are, secrets among them. Raises `ConfigurationError`."""
    check_for_ray(settings)
    engines = (_engines(settings),) if has_engine(settings) else ()
    return _gateways(settings).bind(settings, *engines)


def _gateways(settings: Settings) -> Any:
    own = settings.ray.gateway
    made = serve.deployment(serve.ingress()(GatewayReplica))
    return made.options(
        name=GATEWAY, ray_actor_options={"num_cpus": own.cpus}, **_common(settings), **_gateway_count(own, settings.ray)
    )


def _engines(settings: Settings) -> Any:
    own = settings.ray.engine
    made = serve.deployment(EngineReplica).options(
        name=ENGINE,
        ray_actor_options={"num_cpus": own.cpus, "num_gpus": own.gpus},
        **_common(settings),
        **_engine_count(own, settings.ray),
        **_routing(own),
    )
    return made.bind(settings)


def _common(settings: Settings) -> dict[str, Any]:
    return {
        "max_ongoing_requests": OPEN_REQUESTS,
        "graceful_shutdown_timeout_s": math.ceil(settings.server.drain_s + GRACE_S),
        "graceful_shutdown_wait_loop_s": 0.5,
        "health_check_period_s": HEALTH_S,
        "health_check_timeout_s": HEALTH_LIMIT_S,
    }


def _gateway_count(own: RayGatewaySettings, ray: RaySettings) -> dict[str, Any]:
    if own.most_replicas in (0, own.replicas):
        return {"num_replicas": own.replicas}
    return {"autoscaling_config": _scaled(own.replicas, own.most_replicas, ray, target_ongoing_requests=own.requests)}


def _engine_count(own: RayEngineSettings, ray: RaySettings) -> dict[str, Any]:
    if own.most_replicas in (0, own.replicas):
        return {"num_replicas": own.replicas}
    bounds = {"waiting": own.waiting, "kv_usage": own.kv_usage, "first_text_s": own.first_text_s}
    policy = AutoscalingPolicy(
        policy_function="sluicegate.gateway.ray_serve.scaling:EngineScaling", policy_kwargs=bounds
    )
    return {"autoscaling_config": _scaled(own.replicas, own.most_replicas, ray, policy=policy)}


def _scaled(fewest: int, most: int, ray: RaySettings, **more: Any) -> Any:
    return AutoscalingConfig(
        min_replicas=fewest,
        max_replicas=most,
        upscale_delay_s=ray.up_s,
        downscale_delay_s=ray.down_s,
        look_back_period_s=ray.window_s,
        metrics_interval_s=ray.window_s / 3,
        **more,
    )


def _routing(own: RayEngineSettings) -> dict[str, Any]:
    if own.routing == "load":
        return {}
    return {
        "request_router_config": RequestRouterConfig(
            request_router_class="sluicegate.gateway.ray_serve.router:PrefixRouter"
        )
    }
