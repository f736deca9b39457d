"""Start Ray where none runs, put the application on it, say where it is, and take it away at the end."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.serve.config import HTTPOptions

from sluicegate.gateway.ray_serve.application import application
from sluicegate.gateway.ray_serve.parts import unshared
from sluicegate.gateway.server import check_bind, check_tls
from sluicegate.gateway.settings import ServerSettings, Settings

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Cluster:
    """`address`: of Ray; `local` = one of this machine, with `cpus` and an object store of so many MB."""

    address: str
    cpus: int | None
    object_store_mb: int


def deploy(settings: Settings, cluster: Cluster, name: str, *, detach: bool) -> int:
    """Serve until SIGTERM or SIGINT, or, with `detach`, until the application is deleted. Raises `ConfigurationError`
    before anything is started."""
    check_bind(settings)
    check_tls(settings)
    made = application(settings)
    for said in unshared(settings):
        print(f"warning: {said}", file=sys.stderr)
    _connect(cluster)
    over = threading.Event()
    # Replaces the handlers that Ray has just set, which would end the process before the replicas stop.
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        serve.start(http_options=_http(settings.server))
        serve.run(made, name=name, route_prefix="/")
        server = settings.server
        print(f"Sluicegate serves on http{'s' if server.tls_cert else ''}://{server.host}:{server.port}", flush=True)
        if not detach:
            over.wait()
            serve.delete(name)
        return 0
    finally:
        if cluster.address == LOCAL:
            serve.shutdown()
        ray.shutdown()
        for number, handler in before.items():
            signal.signal(number, handler)


def _connect(cluster: Cluster) -> None:
    if cluster.address != LOCAL:
        ray.init(address=cluster.address, namespace="serve")
        return
    ray.init(
        address=LOCAL,
        num_cpus=cluster.cpus,
        object_store_memory=cluster.object_store_mb * 1024**2,
        include_dashboard=False,
        log_to_driver=False,
    )


def _http(server: ServerSettings) -> Any:
    tls = {"ssl_certfile": server.tls_cert, "ssl_keyfile": server.tls_key} if server.tls_cert else {}
    return HTTPOptions(host=server.host, port=server.port, **tls)
