"""A gateway that speaks gRPC, and a client as `grpcio` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sluicegate.gateway.grpc.messages import EmbedResponse, GenerateRequest, GenerateResponse, Message, StreamEvent
from sluicegate.gateway.testing import TestApp

SERVICE = "/sluicegate.v1.Sluicegate"
LIMIT_S = 120


class Client:
    def __init__(self, address: str, key: str = "", credentials: Any = None, **options: Any) -> None:
        given = list(options.items())
        self.channel = (
            grpc.secure_channel(address, credentials, given) if credentials else grpc.insecure_channel(address, given)
        )
        self.metadata = [("authorization", f"Bearer {key}")] if key else []

    def method(self, name: str, answer: Any, *, streams: bool = False) -> Any:
        """Return a method of the service. It takes a message, or its bytes."""
        make = self.channel.unary_stream if streams else self.channel.unary_unary
        return make(f"{SERVICE}/{name}", lambda m: m if isinstance(m, bytes) else m.SerializeToString(), answer)

    def generate(self, request: Any, **options: Any) -> Any:
        call = self.method("Generate", GenerateResponse.FromString)
        return call(request, **{"timeout": LIMIT_S, "metadata": self.metadata, **options})

    def stream(self, request: Any, **options: Any) -> Any:
        call = self.method("Stream", StreamEvent.FromString, streams=True)
        return call(request, **{"timeout": LIMIT_S, "metadata": self.metadata, **options})

    def embed(self, request: Any, **options: Any) -> Any:
        call = self.method("Embed", EmbedResponse.FromString)
        return call(request, **{"timeout": LIMIT_S, "metadata": self.metadata, **options})


def asking(text: str = "Hello", model: str = "scripted", **fields: Any) -> Any:
    return GenerateRequest(model=model, messages=[Message(role="user", content=text)], **fields)


@contextmanager
def spoken(key: str = "", server: dict[str, Any] | None = None, grpc_table: Any = None, **more: Any) -> Iterator[Any]:
    """Run a gateway with gRPC; yield (gateway, client)."""
    tables = {"server": server or {}, "grpc": {"enabled": True, "port": 0, **(grpc_table or {})}}
    with TestApp(settings={**tables, **more.pop("settings", {})}, **more) as app:
        client = Client(app.runtime.progress.grpc, key)
        try:
            yield app, client
        finally:
            client.channel.close()


def deltas_of(events: Iterable[Any]) -> list[Any]:
    return [delta for event in events for delta in event.deltas]


def ended_with(work: Callable[[], Any]) -> grpc.StatusCode | None:
    """Return the status that the call ended with; None where it was answered."""
    try:
        work()
    except grpc.RpcError as error:
        return error.code()
    return None


class Refusal:
    """What a client learns of an error."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code, self.message = error.code(), error.details()
        self.trailing = dict(error.trailing_metadata() or ())
        self.info = error_details_pb2.ErrorInfo()
        self.retry: Any = None
        self.fields: list[str] = []
        status = rpc_status.from_call(error)
        for detail in status.details if status else ():
            detail.Unpack(self.info)
            bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
            if detail.Unpack(bad):
                self.fields = [violation.field for violation in bad.field_violations]
            if detail.Unpack(retry):
                self.retry = retry.retry_delay.ToTimedelta().total_seconds()

    @property
    def reason(self) -> tuple[str, str]:
        return self.code.name, self.info.reason


def refused(work: Callable[[], Any]) -> Refusal:
    with pytest.raises(grpc.RpcError) as caught:
        work()
    return Refusal(caught.value)
