"""The methods of `sluicegate.v1.Sluicegate`, each a walk through the one pipeline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import grpc

from sluicegate.gateway.api.body.parsing import InWordsOf, Parsed
from sluicegate.gateway.api.delivery import frames_of
from sluicegate.gateway.api.dialect import collected, headers_of, ignored_header
from sluicegate.gateway.api.endpoints.embeddings import embedded_texts, embedding_notes, rows_of
from sluicegate.gateway.grpc.answers import EventWriter, embeddings, whole
from sluicegate.gateway.grpc.calls import Call, HandlerContext, OpenCalls
from sluicegate.gateway.grpc.messages import DESCRIPTOR
from sluicegate.gateway.grpc.requests import read_chat, read_embeddings
from sluicegate.gateway.grpc.sender import StreamSender
from sluicegate.gateway.runtime import Runtime

SERVICE: str = DESCRIPTOR.services_by_name["Sluicegate"].full_name
Method = Callable[[Runtime, Call], Coroutine[Any, Any, bytes | None]]


async def generate(runtime: Runtime, call: Call) -> bytes:
    parsed = await call.read(partial(_chat, runtime, False))
    runtime.check_ready()
    exchange = await collected(runtime, parsed, call.timed(parsed.request), call.parent, call.route)
    await call.head(headers_of(exchange))
    return whole(exchange, parsed)


async def stream(runtime: Runtime, call: Call) -> None:
    parsed = await call.read(partial(_chat, runtime, True))
    runtime.check_ready()
    pipeline = runtime.pipeline
    with InWordsOf(parsed):
        exchange = await pipeline.open(call.timed(parsed.request), call.parent, route=call.route)
    exchange.ignored += parsed.ignored
    written = frames_of(pipeline, exchange, EventWriter(exchange, parsed), parsed)
    try:
        await call.head(headers_of(exchange))
        async with contextlib.aclosing(written) as frames:
            await StreamSender(call.send).send_all(frames)
    finally:
        await pipeline.close(exchange, asyncio.CancelledError())


async def embed(runtime: Runtime, call: Call) -> bytes:
    parsed = await call.read(lambda body, key: read_embeddings(body, runtime.reader, key))
    runtime.check_ready()
    found, exchange = await embedded_texts(runtime, parsed, call.timed(parsed.request), call.parent, call.route)
    rows = rows_of(found, exchange, parsed)
    await call.head(ignored_header(exchange.ignored) | {"traceparent": exchange.entry.trace.traceparent})
    return embeddings(exchange, rows, embedding_notes(found, exchange))


def _chat(runtime: Runtime, streamed: bool, body: bytes, key: str | None) -> Parsed:
    return read_chat(body, runtime.reader, key, stream=streamed)


def handlers(calls: OpenCalls) -> grpc.GenericRpcHandler:
    """Return what serves the methods. Their requests are taken as streams of one message, which looks the same on the
    wire: so the key is checked before anything is read, and a message that never comes is not waited for."""

    def unary(method: Method) -> grpc.RpcMethodHandler:
        return grpc.stream_unary_rpc_method_handler(_handler(calls, method))

    def streaming(method: Method) -> grpc.RpcMethodHandler:
        return grpc.stream_stream_rpc_method_handler(_handler(calls, method))

    methods = {"Generate": unary(generate), "Stream": streaming(stream), "Embed": unary(embed)}
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _handler(calls: OpenCalls, method: Method) -> Callable[[object, HandlerContext], Coroutine[Any, Any, bytes | None]]:
    route = f"/{SERVICE}/{method.__name__.capitalize()}"

    async def admitted(call: Call) -> bytes | None:
        await call.admit()
        return await method(calls.runtime, call)

    async def serve(requests: object, context: HandlerContext) -> bytes | None:
        return await calls.run(context, route, admitted)

    return serve
