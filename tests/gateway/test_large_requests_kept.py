"""What waits or is kept of finished requests is bounded by their size: callers decide how large they are."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from sluicegate.gateway.answer import validation
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.history.history import History
from sluicegate.gateway.settings import TelemetrySettings
from sluicegate.gateway.telemetry import FinishedRequest, RequestAttributes, TraceSink, finished_request
from sluicegate.gateway.telemetry.otlp.export import Exporter, exporter_of
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Constraint, Message, Request
from tests.gateway.test_otlp import a_finished

MIB = 1 << 20


def large(size: int = 30 * MIB) -> FinishedRequest:
    return a_finished(particulars=RequestAttributes(request_bytes=size))


def test_the_console_keeps_so_many_bytes_of_recent_requests() -> None:
    sink = TraceSink({}, recent=100)
    for done in (a_finished(), large(), large(), large()):
        sink.hand_in(done)
    assert [one.particulars.request_bytes for one in sink.recent()] == [30 * MIB] * 2
    sink.hand_in(large(900 * MIB))
    assert len(list(sink.recent())) == 1
    for _ in range(150):
        sink.hand_in(a_finished())
    sink.hand_in(large())
    assert len(list(sink.recent())) == 100


def waiting_exporter() -> Exporter:
    """Make one that is not started: its collector is down."""
    return exporter_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, {})


def test_traces_that_wait_for_a_collector_have_so_many_bytes() -> None:
    exporter = waiting_exporter()
    for done in (large(), large(), large(), a_finished()):
        exporter.take(done)
    assert exporter.stats() == {"traces_sent_total": 0.0, "traces_dropped_total": 1.0, "traces_queued": 3.0}


def test_requests_that_wait_to_be_written_have_so_many_bytes() -> None:
    history = History(TelemetrySettings(), lambda: ())  # not started: its disk stands still
    for done in (large(), large(), large(), a_finished()):
        history.take(done)
    assert history.lost == 1


def test_small_requests_wait_whatever_waits_already() -> None:
    waiting = deque([large(), large()])
    assert finished_request.fits_beside(a_finished(), waiting)
    assert not finished_request.fits_beside(large(), waiting)


def test_a_finished_request_says_how_large_its_body_was() -> None:
    body: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    with TestApp(script=["ok"]) as app:
        assert app.client.post("/v1/chat/completions", json={**body, "user": "u" * 40_000}).status_code == 200
        [done] = app.runtime.trace_sink.recent()
        assert 40_000 < done.particulars.request_bytes < 40_200


def schema_of(number: int) -> Request:
    schema = {"type": "string", "description": f"{number}" + "d" * MIB}
    return Request(id="r", messages=(Message("user", "x"),), model="m", constraint=Constraint("json_schema", schema))


def test_validators_are_kept_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "COMPILED_BYTES", 2.5 * MIB)
    validator = Validator()
    for number in range(5):
        validator.prepare(schema_of(number))
    assert len(validator._compiled) == 2
    monkeypatch.setattr(validation, "COMPILED_BYTES", 0)
    validator.prepare(schema_of(9))
    assert len(validator._compiled) == 1
