"""The gRPC server in the gateway's process: its address, its bounds, and how it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sluicegate.gateway.grpc.calls import LAST_WORDS_S, OpenCalls, headers_of
from sluicegate.gateway.grpc.errors import failure_of
from sluicegate.gateway.grpc.health import ReadinessHealth
from sluicegate.gateway.grpc.service import SERVICE, handlers
from sluicegate.gateway.grpc.tls import GrpcCertificates, grpc_certificates
from sluicegate.gateway.http.api_key import key_in
from sluicegate.gateway.http.listener import bind, no_listening, place_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import SluicegateError

log = logging.getLogger("sluicegate.grpc")
TICK_S = 0.1
MOST = 2**31 - 1
"""Largest number that an option of gRPC takes."""
OPTIONS = ("[grpc] host", "[grpc] port")


class GrpcServer:
    """Serves from `open` until `close`; as soon as the gateway takes no more requests it takes none either."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._asked = runtime.settings.grpc
        self._calls = OpenCalls(runtime)
        self._health = ReadinessHealth(runtime, SERVICE)
        self._server: grpc.aio.Server | None = None
        self._follower: asyncio.Task[None] | None = None
        self._drained: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen, whether models are loaded or not. Raises `ConfigurationError`."""
        limits = self._runtime.settings.server
        certificates = grpc_certificates(limits)
        bind(
            self._asked.host or limits.host, self._asked.port, OPTIONS
        ).close()  # gRPC says no more than that it failed
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)
        server = grpc.aio.server(options=self._options(), interceptors=(_KeyForReflection(self._runtime),))
        server.add_generic_rpc_handlers((handlers(self._calls),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._asked.reflection:
            reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        port = self._listen(server, certificates)
        await server.start()
        self._server = server
        self._runtime.metrics.watch(self._calls.stats)
        self._follower = asyncio.create_task(self._follow())
        self._runtime.progress.grpc = place_of(self._asked.host or self._runtime.settings.server.host, port)

    async def close(self) -> None:
        """Let open calls end within `[server] drain_s`, the rest with UNAVAILABLE."""
        if self._follower is not None:
            self._follower.cancel()
        await self._drain()

    def _listen(self, server: grpc.aio.Server, certificates: GrpcCertificates | None) -> int:
        asked = self._asked
        host = asked.host or self._runtime.settings.server.host
        try:
            if certificates is None:
                return int(server.add_insecure_port(place_of(host, asked.port)))
            self._runtime.renewal.watch("gRPC's certificates", lambda: certificates.files, certificates.renew)
            return int(server.add_secure_port(place_of(host, asked.port), certificates.credentials))
        except RuntimeError as error:
            raise no_listening(host, asked.port, OSError(0, str(error)), OPTIONS) from error

    def _options(self) -> list[tuple[str, int]]:
        limits, ping_ms = self._runtime.settings.server, _ms(self._asked.ping_s)
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", min(limits.max_body_bytes, MOST)),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", min(limits.max_head_bytes, MOST)),
            ("grpc.absolute_max_metadata_size", min(limits.max_head_bytes, MOST)),
            ("grpc.max_concurrent_streams", self._asked.calls_per_connection),
            ("grpc.server_handshake_timeout_ms", _ms(limits.head_s)),
            ("grpc.keepalive_time_ms", _ms(limits.heartbeat_s)),
            ("grpc.keepalive_timeout_ms", _ms(limits.stall_s)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", ping_ms),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", ping_ms),
            ("grpc.http2.max_ping_strikes", 2),
        ]

    async def _follow(self) -> None:
        """Begin to stop when HTTP does, not after it."""
        while not self._runtime.progress.is_stopping():  # noqa: ASYNC110
            await asyncio.sleep(TICK_S)
        await self._drain()

    async def _drain(self) -> None:
        if self._drained is None:
            self._drained = asyncio.create_task(self._stopped())
        await asyncio.shield(self._drained)

    async def _stopped(self) -> None:
        if self._server is None:
            return
        self._health.stopping = True
        drain_s = self._runtime.settings.server.drain_s
        end = asyncio.get_running_loop().call_later(drain_s, self._calls.end)
        try:
            await self._server.stop(drain_s + LAST_WORDS_S)
        finally:
            end.cancel()


def _ms(seconds: float) -> int:
    """Return milliseconds as an option of gRPC can say them: none of them is longer than 24 days."""
    return max(1, min(int(seconds * 1000), MOST))


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log record is worth keeping. gRPC logs a trace for each client that leaves before its answer,
    which is nobody's error."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, grpc.aio.InternalError)


class _KeyForReflection(grpc.aio.ServerInterceptor):
    """What there is to call is told as the OpenAPI document is: where there are keys, to those who hold one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        if details.method.startswith("/grpc.reflection.") and self._runtime.keyed:
            try:
                self._runtime.identify(key_in(headers_of(details.invocation_metadata)))
            except SluicegateError as error:
                return _refusing(error)
        return await continuation(details)


def _refusing(error: SluicegateError) -> grpc.RpcMethodHandler:
    failure = failure_of(error)

    async def refuse(requests: object, context: grpc.aio.ServicerContext) -> None:
        await context.abort(failure.code, failure.message, failure.metadata)

    return grpc.stream_stream_rpc_method_handler(refuse)
