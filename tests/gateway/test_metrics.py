"""What operators watch: every number that was promised, with bounded labels, in both text formats and over OTLP."""

from __future__ import annotations

import gzip
import time
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from sluicegate.gateway.telemetry import Metrics, semconv
from sluicegate.gateway.telemetry.collectors import ALIASES, Buckets, LabelledCounts, StageCollector
from sluicegate.gateway.telemetry.gpu import Gpus
from sluicegate.gateway.telemetry.labels import OTHER, Labels
from sluicegate.gateway.telemetry.metrics import Objectives
from sluicegate.gateway.telemetry.otlp.sending import ExportTarget, Sender
from sluicegate.gateway.telemetry.push import Pusher, as_request
from sluicegate.plugins import Answer, Caller, Decision, Outcome, Request, Timeline, Usage
from tests.gateway.conftest import RunningGateway, running
from tests.gateway.test_export import a_collector, status
from tests.waiting import until

OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0"}
BODY = {
    "model": "bundled",
    "messages": [{"role": "user", "content": "Ada Lovelace, born 1815, lives in London."}],
    "stream": True,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "p", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def an_outcome(**fields: Any) -> Outcome:
    line = Timeline(queued_s=1.0, started_s=1.5, first_token_s=2.5, ended_s=3.0)
    values: dict[str, Any] = {
        "request": Request("r", "m", ()),
        "caller": Caller(),
        "model": "m",
        "answers": (Answer(0, "x", "stop"),),
        "usage": Usage(10, 5, 8),
        "decisions": (Decision("moderate", "pii", "block", 0.001), Decision("recall", "memory", "miss", 0.001)),
        "duration_s": 2.0,
        "time_to_first_chunk_s": 0.2,
        "timeline": line,
        "gaps_s": (0.1, 0.1, 0.1, 0.1),
        "held_s": 0.05,
    }
    return Outcome(**{**values, **fields})


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_an_outcome_becomes_every_promised_number() -> None:
    metrics, model = Metrics(), {"gen_ai_request_model": "m"}
    metrics.observe(an_outcome())
    assert value(metrics, "gen_ai_server_time_to_first_token_seconds_sum", **model) == 0.2
    assert value(metrics, "gen_ai_server_time_per_output_token_seconds_sum", **model) == pytest.approx(0.1)
    assert value(metrics, "sluicegate_inter_token_seconds_count", **model) == 4
    assert value(metrics, "sluicegate_queue_seconds_sum", **model) == 0.5
    assert value(metrics, "sluicegate_prefill_seconds_sum", **model) == 1.0
    assert value(metrics, "sluicegate_holdback_seconds_sum", **model) == 0.05
    assert value(metrics, "sluicegate_cached_prompt_tokens_total", **model) == 8
    assert value(metrics, "sluicegate_refusals_total", rail="pii", target="output") == 1
    assert value(metrics, "sluicegate_verdicts_total", rail="pii", verdict="block") == 1


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        ({}, True),
        ({"time_to_first_chunk_s": 1.2}, False),
        ({"gaps_s": (0.3,) * 4}, False),
        ({"duration_s": 9.0}, False),
        ({"error": "overloaded"}, False),
        ({"time_to_first_chunk_s": None, "gaps_s": ()}, True),
    ],
)
def test_goodput_is_what_keeps_every_objective(fields: dict[str, Any], met: bool) -> None:
    metrics = Metrics(Objectives(first_s=1.0, token_s=0.2, total_s=5.0))
    metrics.observe(an_outcome(**fields))
    labels = {"gen_ai_request_model": "m", "met": str(met).lower()}
    assert value(metrics, "sluicegate_goodput_requests_total", **labels) == 1


def test_labels_do_not_grow_without_end() -> None:
    metrics = Metrics(label_values=3)
    for i in range(50):
        metrics.observe(an_outcome(model=f"model-{i}", error=f"error-{i}"))
    assert value(metrics, "sluicegate_requests_total", gen_ai_request_model=OTHER, outcome=OTHER) == 47
    labels = Labels(1)
    assert [labels["x"], labels["y"], labels["x"], labels["y"]] == ["x", OTHER, "x", OTHER]


def test_buckets_count_as_a_histogram_does() -> None:
    """A value on a bound belongs below it."""
    buckets = Buckets("g", "gaps", ("model",), (0.1, 0.2))
    buckets.add([0.05, 0.1, 0.15], "m")
    buckets.observe(5.0, "m")
    [family] = buckets.collect()
    found = {s.labels.get("le", s.name): s.value for s in family.samples}
    assert (found["0.1"], found["0.2"], found["+Inf"]) == (2, 3, 4)
    assert found["g_sum"] == pytest.approx(5.3)


@pytest.mark.parametrize("stats", [{1: 2}, {None: 1}, {"a": None}, {"a": "many"}, None, 5])
def test_a_stage_whose_numbers_are_none_takes_no_other_number_with_it(stats: Any) -> None:
    class Stage:
        def __init__(self, stats: Any) -> None:
            self._stats = stats

        def stats(self) -> Any:
            return self._stats

    registry = CollectorRegistry()
    registry.register(StageCollector(lambda: {"moderate": [("odd", Stage(stats)), ("fine", Stage({"a": 1}))]}))
    found = [sample.name for family in registry.collect() for sample in family.samples]
    assert found == ["sluicegate_moderate_fine_a"]


@pytest.mark.parametrize("accept", ["*/*", OPENMETRICS["accept"]])
def test_counts_are_shown_as_a_counter_is(accept: str) -> None:
    """All but the moment at which each was begun."""
    shown = []
    for kind in ("plain", "quick"):
        registry = CollectorRegistry()
        if kind == "plain":
            counter = Counter("n_total", "told", ("a", "b"), registry=registry)
            counter.labels("x", "y").inc()
            counter.labels("x", "y").inc(2.5)
            counter.labels("z", "").inc()
        else:
            counts = LabelledCounts("n_total", "told", ("a", "b"))
            registry.register(counts)
            counts.inc("x", "y")
            counts.inc("x", "y", by=2.5)
            counts.inc("z", "")
        text = choose_encoder(accept)[0](registry).decode()
        shown.append([line.rpartition(" ")[0] if "_created{" in line else line for line in text.splitlines()])
    assert shown[0] == shown[1]


def test_exemplars_lead_from_a_histogram_to_a_trace() -> None:
    """Only in the format that has them, and only for traces that were exported."""
    metrics = Metrics()
    metrics.observe(an_outcome(trace_id="ab" * 16))
    metrics.observe(an_outcome(model="unsampled"))
    text, kind = metrics.exposition(OPENMETRICS["accept"])
    assert kind.startswith("application/openmetrics-text")
    families = text_string_to_metric_families(text.decode())
    exemplars = [s.exemplar.labels["trace_id"] for f in families for s in f.samples if s.exemplar]
    assert set(exemplars) == {"ab" * 16}
    plain, kind = metrics.exposition("*/*")
    assert kind.startswith("text/plain")
    assert b"trace_id" not in plain


def test_a_served_request_moves_the_numbers(gateway: RunningGateway) -> None:
    """The real engine, cache, grammar and rails, read as Prometheus and as an inference gateway read them."""
    done = gateway.runtime.trace_sink.seen
    assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200
    until(lambda: gateway.runtime.trace_sink.seen > done)
    for name in (
        "gen_ai_server_time_per_output_token_seconds_count",
        "sluicegate_inter_token_seconds_count",
        "sluicegate_queue_seconds_count",
        "sluicegate_prefill_seconds_count",
        "sluicegate_goodput_requests_total",
        "sluicegate_batched_rows_total",
        "sluicegate_masks_total",
        "sluicegate_mask_seconds_total",
        "sluicegate_constrain_grammar_compiled_total",
        "sluicegate_constrain_grammar_compile_seconds_total",
        "sluicegate_verdicts_total",
        "sluicegate_steps_total",
        "sluicegate_prefix_cache_asked_tokens_total",
        "sluicegate_event_loop_lag_seconds_count",
    ):
        assert gateway.metric(name) > 0, name
    for alias in ALIASES:
        gateway.metric(alias)
    text = httpx.get(f"{gateway.url}/metrics", headers=OPENMETRICS).text
    assert {f.name for f in text_string_to_metric_families(text)} >= {"vllm:num_requests_waiting", "sluicegate_masks"}


def test_metrics_are_pushed_where_asked_for() -> None:
    """The same numbers as at `/metrics`, under the names of the conventions."""
    with a_collector(status(200)) as collector:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        with running(environ={"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}) as gateway:
            assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200
        request = ExportMetricsServiceRequest.FromString(collector.bodies[-1])  # type: ignore[attr-defined]
    [resource] = request.resource_metrics
    found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    [first] = found["gen_ai.server.time_to_first_token"].histogram.data_points
    assert first.count == sum(first.bucket_counts) == 1
    assert list(first.explicit_bounds) == list(semconv.FIRST_TOKEN_BUCKETS_S)
    assert {a.key for a in first.attributes} == {semconv.REQUEST_MODEL}
    assert found["sluicegate_tokens_generated"].sum.is_monotonic
    assert found["sluicegate_kv_cache_usage_ratio"].gauge.data_points[0].as_double >= 0


def test_a_collector_that_does_not_answer_keeps_nobody_from_stopping() -> None:
    def hang(handler: Any, n: int) -> None:
        time.sleep(5)

    with a_collector(hang) as collector:
        target = ExportTarget(f"http://127.0.0.1:{collector.server_port}", timeout_s=0.3)
        pusher = Pusher(Metrics().registry, Sender(target), {}, every_s=0.01)
        pusher.start()
        until(lambda: collector.heads)  # type: ignore[attr-defined]
        pusher.close(limit_s=0.2)
        until(lambda: not pusher._thread.is_alive())


def test_what_is_pushed_can_be_packed_and_read() -> None:
    metrics = Metrics()
    metrics.observe(an_outcome())
    body = as_request(metrics.registry.collect(), {"service.name": "x", "n": 1, "b": True}, 5).SerializeToString()
    again = ExportMetricsServiceRequest.FromString(gzip.decompress(gzip.compress(body)))
    assert again.resource_metrics[0].resource.attributes[0].value.string_value == "x"


def test_without_a_gpu_there_are_no_gpu_metrics() -> None:
    missing = Gpus("libno-such-thing.so")
    assert not missing
    assert (list(missing.collect()), missing.read()) == ([], [])
