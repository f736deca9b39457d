"""`sluicegate serve`: the gateway, until it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.worker_processes.processes import WorkerProcesses
from sluicegate.gateway.commands.worker_processes.terms import check_workers, of_worker, reread
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.contract.disk_paths import paths_checked


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; SLUICEGATE_* variables override it")
    parser.add_argument("--model", help="the bundled model, a folder with a checkpoint, or a hub name")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1; a public one needs an API key)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8000; 0 takes a free one)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that serve the port, before other servers")
    parser.set_defaults(run=_serve)


def _serve(parsed: argparse.Namespace) -> int:
    if hasattr(signal, "pthread_sigmask"):  # else a reload that is asked for during the start would end the process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from sluicegate.gateway.config import is_empty, load

    def read() -> Settings:
        return load(parsed.config, os.environ, _overrides(parsed))

    with paths_checked():
        settings = read()  # before the imports that take seconds
    began_empty = is_empty(parsed.config)

    def read_again() -> Settings:
        """Read as before. Raises `ConfigurationError` also for a file that was emptied, or is just being written: keys
        and rails would be gone."""
        if not began_empty and is_empty(parsed.config):
            raise ConfigurationError(f"the configuration file {parsed.config} is empty; reload once it is whole")
        return read()

    check_workers(settings)
    if settings.server.workers > 1:
        return _serve_together(settings, read_again, debug=hasattr(parsed, "debug"))
    with _uncollected():
        from sluicegate.gateway.server import serve

        return serve(settings, read_again, debug=hasattr(parsed, "debug"))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be looked for while the server is imported: objects by the hundred thousand, and hardly any
    garbage. The server enables it again before it loads models; this does where it never came to that."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _serve_together(settings: Settings, read: Callable[[], Settings], *, debug: bool) -> int:
    """Hold the address for all workers, and let them listen on it."""
    from sluicegate.gateway.http.listener import bind, place_of
    from sluicegate.gateway.telemetry.logs import begin_log

    host, port = settings.server.host, settings.server.port
    bind(host, port).close()  # whoever shares it is another gateway
    held = bind(host, port, shared=True)
    port = held.getsockname()[1]

    def work(number: int, on_ready: Callable[[], None]) -> int:
        with _uncollected():
            from sluicegate.gateway.server import serve

            begun = reread(settings, read)  # one that begins again must not bring back keys and rails of before
            own, again = of_worker(begun, number, port), lambda: of_worker(read(), number, port)
            return serve(own, again, debug=debug, on_ready=on_ready)

    begin_log("debug" if debug else settings.server.log_level, settings.server.log_form)
    scheme = "https" if settings.server.tls_cert else "http"

    def welcome() -> None:
        workers = f"{settings.server.workers} workers serve"
        print(f"Sluicegate: {workers} {scheme}://{place_of(host, port)}", flush=True)

    with held:
        return WorkerProcesses(settings.server.workers, work, welcome).run()


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    named = ("host", "port", "workers")
    server = {name: getattr(parsed, name) for name in named if getattr(parsed, name) is not None}
    found: dict[str, Any] = {"server": server} if server else {}
    if parsed.model is not None:
        found["stages"] = {"generate": {"engine": {"models": [parsed.model]}}}
    return found
