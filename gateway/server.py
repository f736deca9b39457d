"""Run the application under uvicorn: bind safely, say when it is ready, stop gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import json
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
import uvloop

from sluicegate.gateway.admin.reload import HangupHandler, reload_audited
from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import misspelt_variables, secret_files
from sluicegate.gateway.http.connection.protocol import guarded_protocol
from sluicegate.gateway.http.connection.web_sockets import guarded_socket
from sluicegate.gateway.http.listener import bind, no_listening
from sluicegate.gateway.http.tls import Certificates, certificates_of
from sluicegate.gateway.huge_pages import gather
from sluicegate.gateway.runtime import Progress, Runtime
from sluicegate.gateway.settings import ServerSettings, Settings
from sluicegate.gateway.telemetry.logs import begin_log
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.compiled.builder import compiling
from sluicegate.plugins.contract.disk_paths import paths_checked
from sluicegate.plugins.memory.stack_room import with_room

log = logging.getLogger("sluicegate")

SWITCH_INTERVAL_S = 0.001
"""How long the engine thread may keep the interpreter from the event loop (Python's default is 5 ms)."""

TICK_S = 0.1

USUAL_AFTER_S = 2.0
"""Delay after the start, when requests have allocated the memory they need. A process that ends earlier never pays for
the reordering."""

LAST_WORDS_S = 1.0
"""How long a client has to read that its stream ends because the gateway stops."""

COLLECT_AFTER = (5_000, 20, 25)
"""Thresholds of the garbage collector: a full collection after 2.5 million new objects instead of 70,000. Garbage that
only a full collection finds is then at most about 300 MB."""


def check_bind(settings: Settings) -> None:
    """Refuse a public address without keys: a gateway that anyone can reach serves only those who hold one."""
    hosts = [settings.server.host]
    if settings.grpc.enabled and settings.grpc.host:
        hosts.append(settings.grpc.host)
    open_to_others = [host or "every address" for host in hosts if not _is_loopback(host)]
    if not open_to_others:
        return
    if (settings.keys or settings.keeps_keys) and "api-keys" in settings.pipeline.admit:
        return
    raise ConfigurationError(
        f"refusing to listen on {open_to_others[0]}, which others can reach, without an API key; set "
        "SLUICEGATE_API_KEY, [[keys]] or [accounts] path (and keep 'api-keys' in [pipeline] admit), or listen on "
        "127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    settings: Settings,
    read_again: Callable[[], Settings] | None = None,
    *,
    debug: bool = False,
    on_ready: Callable[[], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status. Raises `ConfigurationError` before anything is bound, and what
    kept a stage from starting once all is closed again.

    SIGHUP reloads rails and policies from what `read_again` gives; see `gateway/reload.py`."""
    check_bind(settings)
    check_tls(settings)
    listener = _bind(settings)
    begin_log("debug" if debug else settings.server.log_level, settings.server.log_form)
    for warning in misspelt_variables(os.environ):
        log.warning(warning)
    with compiling(settings.server.compile):
        with paths_checked():
            runtime = compose(settings, os.environ)
        runtime.reloader.source = read_again
        runtime.renewal.watch("secrets", lambda: secret_files(os.environ), partial(_take_secrets, runtime))
        return serve_runtime(runtime, listener, on_ready)


def serve_runtime(
    runtime: Runtime, listener: socket.socket | None = None, on_ready: Callable[[], None] | None = None
) -> int:
    """Serve a runtime that is composed already, as `serve` does; benchmarks put models of their own into it. One of
    several workers tells `on_ready`, and prints no welcome."""
    settings = runtime.settings
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # what was imported stays; garbage of loading is looked for without it
    gc.enable()
    server = Server(_uvicorn_config(settings, runtime), settings.server, runtime.progress)
    runtime.progress.is_stopping = lambda: server.is_closing
    if on_ready is not None:
        runtime.progress.reload_workers = partial(_reload_workers, os.getppid())
    listeners = _listening(listener or _bind(settings), settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        with_room(lambda: runner.run(_run(server, runtime, listeners, on_ready)))
    if runtime.progress.failure is not None:
        raise runtime.progress.failure
    return 0


def _reload_workers(parent: int) -> None:
    """Have the parent of all workers pass SIGHUP on. Without it this worker is about to end."""
    if os.getppid() == parent:
        os.kill(parent, signal.SIGHUP)


class Server(uvicorn.Server):
    """Exits with success after a requested stop, and ends what is still open after `drain_s` with an error of ours.

    uvicorn raises the signal again once all is closed, so that the process would seem to have died of it (status 143),
    and closes open connections without a word.

    After SIGTERM it first serves on for `lame_duck_s`, while `/readyz` sends balancers away and every answer closes its
    connection; SIGINT, or a second signal, stops at once.
    """

    def __init__(self, config: uvicorn.Config, settings: ServerSettings, progress: Progress) -> None:
        super().__init__(config)
        self._drain_s = settings.drain_s
        self._lame_duck_s = settings.lame_duck_s
        self._progress = progress
        self.is_closing = False
        """Whether new requests are refused."""

    async def main_loop(self) -> None:
        await super().main_loop()
        if self._captured_signals == [signal.SIGTERM] and self._progress.state == "ready":
            await self._drain_lame_duck()
        self.is_closing = True

    async def _drain_lame_duck(self) -> None:
        """Go on serving until `lame_duck_s` is over or another signal comes."""
        end_s = time.monotonic() + self._lame_duck_s
        self._progress.leaving = (
            f"not ready: the gateway is about to stop; it serves what still comes for {self._lame_duck_s:g} s"
        )
        log.info("SIGTERM: /readyz says 503 from now on; the listener closes in %g s", self._lame_duck_s)
        self.config.encoded_headers.append((b"connection", b"close"))
        while len(self._captured_signals) == 1 and (left_s := end_s - time.monotonic()) > 0:
            await self.on_tick(0)  # renews the headers of every answer
            await asyncio.sleep(min(TICK_S, left_s))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end = asyncio.get_running_loop().call_later(self._drain_s, self._end_work)
        try:
            await super().shutdown(sockets)
        finally:
            end.cancel()

    def _end_work(self) -> None:
        for connection in list(self.server_state.connections):
            if (end_work := getattr(connection, "end_work", None)) is not None:  # web sockets were closed at once
                end_work()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # nobody else may set handlers
            yield
            return
        before = {number: signal.signal(number, _heard) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with super().capture_signals():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _heard(number: int, frame: object) -> None:
    """Ignore the signal that uvicorn raises again."""


class _Config(uvicorn.Config):
    """uvicorn's, with certificates that can be renewed."""

    certificates: Certificates | None = None

    def load(self) -> None:
        super().load()
        self.ssl = self.certificates.context if self.certificates is not None else None


def _uvicorn_config(settings: Settings, runtime: Runtime) -> uvicorn.Config:
    app = create_app(settings, runtime=runtime)
    config = _Config(
        app,
        http=guarded_protocol(settings.server, app.state.door.at_head),
        ws=guarded_socket(settings.server),
        limit_concurrency=settings.server.max_connections,
        log_config=None,
        access_log=False,
        server_header=False,
        ws_max_size=settings.server.max_body_bytes,
        timeout_graceful_shutdown=math.ceil(settings.server.drain_s + LAST_WORDS_S),
    )
    certificates = config.certificates = certificates_of(settings.server)
    if certificates is not None:
        runtime.troubles.watch("certificate", certificates.troubles)
        runtime.metrics.registry.register(certificates)

        async def renew() -> None:
            async with runtime.audit.change("a changed file", "certificates.renew"):
                await certificates.renew()

        runtime.renewal.watch("certificates", lambda: certificates.files, renew)
    return config


def check_tls(settings: Settings) -> None:
    """Check the certificates. Raises `ConfigurationError`."""
    certificates_of(settings.server)


def _bind(settings: Settings) -> socket.socket:
    """Bind the address before the slow part of the start; nothing listens yet. Raises `ConfigurationError`."""
    return bind(settings.server.host, settings.server.port, shared=settings.server.workers > 1)


def _listening(listener: socket.socket, settings: Settings) -> list[socket.socket]:
    """Listen, and return the sockets. Two gateways that start at once may both take the address: the second one learns
    of it here. One of several workers listens once it is ready: the kernel would give it requests that another can
    answer now."""
    server = settings.server
    if server.workers > 1:
        own = [bind(server.host, server.worker_port, ("--host", "[server] worker_port"))] if server.worker_port else []
        return [listener, *own]
    try:
        listener.listen()
    except OSError as error:
        raise no_listening(server.host, server.port, error) from error
    return [listener]


async def _run(
    server: uvicorn.Server, runtime: Runtime, listeners: list[socket.socket], on_ready: Callable[[], None] | None
) -> None:
    # Do not track running asynchronous generators: the loop does so only to close unfinished ones when it stops, and
    # here whoever starts a generator closes it. A request has up to five.
    sys.set_asyncgen_hooks(firstiter=None)
    watcher = asyncio.create_task(_announce(server, runtime, listeners[0].getsockname(), on_ready))
    with contextlib.suppress(NotImplementedError):  # where the platform has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, HangupHandler(runtime))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # it is held back until now
    try:
        await server.serve(sockets=listeners)
    finally:
        watcher.cancel()


async def _take_secrets(runtime: Runtime) -> None:
    """Read the configuration again after a secret changed. Raises what `Reloader.reload` raises."""
    for place in (await reload_audited(runtime, "a changed file")).restart:
        log.warning("a secret changed, and with it %s, which needs a restart to count", place)


async def _announce(
    server: uvicorn.Server, runtime: Runtime, address: tuple[str, int], on_ready: Callable[[], None] | None
) -> None:
    """Print a line that works once everything is up, or stop the server when start-up failed."""
    while not runtime.ready or (on_ready is not None and not server.started):
        if runtime.progress.failure is not None:
            server.should_exit = True
            return
        await asyncio.sleep(0.05)
    settle_memory()
    if on_ready is not None:
        on_ready()
    else:
        _welcome(runtime, address)
    await asyncio.sleep(USUAL_AFTER_S)
    log.debug("memory in huge pages: %d blocks", await asyncio.to_thread(gather))


def _welcome(runtime: Runtime, address: tuple[str, int]) -> None:
    print(
        welcome(
            next(iter(runtime.models)),
            address,
            keyed=runtime.keyed,
            console=runtime.settings.telemetry.console,
            tls=bool(runtime.settings.server.tls_cert),
            grpc=runtime.progress.grpc,
        ),
        flush=True,
    )


def settle_process() -> None:
    """Tune the process for serving, once everything is loaded: thread switch interval, garbage collection, huge
    pages."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settle_memory()
    gather()


def settle_memory() -> None:
    """Keep what lives from start-up on out of garbage collection, and collect seldom. A full collection stops
    everything for about 60 us a stream, and Python's own thresholds ask for one every few hundred streams."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


EXAMPLE_SCHEMA = {
    "type": "object",
    "properties": {"invoice_number": {"type": "string"}, "total": {"type": "number"}},
    "required": ["invoice_number", "total"],
    "additionalProperties": False,
}


def welcome(
    model: str, address: tuple[str, int], *, keyed: bool, console: bool, tls: bool = False, grpc: str = ""
) -> str:
    """Return the welcome text: the gateway's addresses, and a command that works when pasted."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"{'https' if tls else 'http'}://{host}:{address[1]}"
    key = '-H "Authorization: Bearer $SLUICEGATE_API_KEY" ' if keyed else ""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Invoice INV-2041 from Harbour Tools, total 318.40 EUR."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "invoice", "schema": EXAMPLE_SCHEMA}},
    }
    return (
        f"Sluicegate serves {model!r} on {url}\n"
        f"  API      {url}/v1    docs: {url}/docs    metrics: {url}/metrics\n"
        + (f"  console  {url}/console\n" if console else "")
        + (f"  gRPC     {grpc}\n" if grpc else "")
        + f"Try:\n  curl -s {url}/v1/chat/completions {key}-H 'content-type: application/json' -d '{json.dumps(body)}'"
    )
