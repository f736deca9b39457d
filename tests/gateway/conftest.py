"""A real gateway on a real socket with the bundled model: what the tests talk to is what users talk to."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from openai import OpenAI

from benchmarks.random_model import save_random_model
from sluicegate.gateway import create_app, load
from sluicegate.gateway.compose import compose
from sluicegate.gateway.http.protocol import guarded_protocol
from sluicegate.gateway.runtime import Runtime
from tests.waiting import until


@dataclass(frozen=True)
class RunningGateway:
    url: str
    runtime: Runtime

    def client(self, **options: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=options.pop("api_key", "none"), max_retries=0, **options)

    def metric(self, name: str) -> float:
        """The sum over all label sets of a metric, as Prometheus would scrape it."""
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{"))]
        assert values, f"/metrics has no {name}"
        return sum(values)


@contextmanager
def running(overrides: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> Iterator[RunningGateway]:
    settings = load(environ=environ, overrides=overrides)
    runtime = compose(settings, environ or {})
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(settings, runtime=runtime),
        http=guarded_protocol(settings.server),
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    gateway = RunningGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", runtime)
    try:
        until(lambda: runtime.ready or runtime.progress.failure is not None, 300)
        assert runtime.progress.failure is None, runtime.progress.failure
        yield gateway
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), f"the gateway did not stop:\n{_where(thread)}"


def _where(thread: threading.Thread) -> str:
    """The stack of a thread, and of the tasks of its event loop."""
    frame = sys._current_frames().get(thread.ident or 0)
    tasks = [task for task in gc.get_objects() if isinstance(task, asyncio.Task) and not task.done()]
    return "".join(traceback.format_stack(frame)) + "\n".join(repr(task) for task in tasks)


@pytest.fixture(scope="session")
def gateway() -> Iterator[RunningGateway]:
    """The bundled model with the configuration a newcomer gets."""
    with running() as found:
        yield found


@pytest.fixture(scope="session")
def run_gateway() -> Callable[..., Any]:
    """A factory for gateways with other settings: `with run_gateway(overrides) as gateway:`."""
    return running


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights and the bundled tokenizer: it babbles, so only the masks make its answers valid."""
    return save_random_model(tmp_path_factory.mktemp("random"))
