"""A real gateway on a real socket with the bundled model: what the tests talk to is what users talk to."""

from __future__ import annotations

import asyncio
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
from sluicegate.gateway.http.connection.protocol import guarded_protocol
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.testing import run_in, waiting_in
from tests.gateway.certificates import self_signed
from tests.waiting import until


@dataclass(frozen=True)
class RunningGateway:
    url: str
    runtime: Runtime
    loop: asyncio.AbstractEventLoop

    def client(self, **options: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=options.pop("api_key", "none"), max_retries=0, **options)

    def metric(self, name: str) -> float:
        """Return the sum over all label sets of a metric, as Prometheus would scrape it."""
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{"))]
        assert values, f"/metrics has no {name}"
        return sum(values)


@contextmanager
def running(overrides: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> Iterator[RunningGateway]:
    settings = load(environ=environ, overrides=overrides)
    runtime = compose(settings, environ or {})
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(settings, runtime=runtime)
    config = uvicorn.Config(
        app,
        http=guarded_protocol(settings.server, app.state.door.at_head),
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=run_in, args=(loop, server.serve(sockets=[listener])), daemon=True)
    thread.start()
    gateway = RunningGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", runtime, loop)
    try:
        until(lambda: runtime.ready or runtime.progress.failure is not None, 300)
        assert runtime.progress.failure is None, runtime.progress.failure
        yield gateway
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), f"the gateway did not stop:\n{_where(loop)}"


def _where(loop: asyncio.AbstractEventLoop) -> str:
    """Return where the tasks of an event loop wait, and the stacks of all threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [
        f"thread {names.get(ident)}:\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join([waiting_in(loop), *stacks])


@pytest.fixture(scope="session")
def gateway() -> Iterator[RunningGateway]:
    """Run the bundled model with the configuration a newcomer gets."""
    with running() as found:
        yield found


@pytest.fixture(scope="session")
def run_gateway() -> Callable[..., Any]:
    """Return a factory for gateways with other settings: `with run_gateway(overrides) as gateway:`."""
    return running


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a Llama with random weights and the bundled tokenizer: it babbles, so only the masks make its answers
    valid."""
    return save_random_model(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the files of a self-signed certificate for localhost and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    for path, content in zip(paths, self_signed(), strict=True):
        path.write_bytes(content)
    return str(paths[0]), str(paths[1])
