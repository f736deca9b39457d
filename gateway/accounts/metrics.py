"""What was used and what it cost, for Prometheus. Counters since the start of this process; the store has the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.health import Part
from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.telemetry import semconv

LABELS = ("key", "team", "feature", "model")


class AccountMetrics(Collector):
    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(semconv.METRIC_USAGE_REQUESTS, "Requests by who asked.", labels=LABELS)
        tokens = CounterMetricFamily(semconv.METRIC_USAGE_TOKENS, "Tokens by who asked.", labels=(*LABELS, "type"))
        cost = CounterMetricFamily(semconv.METRIC_USAGE_COST, "Cost by who asked.", labels=(*LABELS, "currency"))
        refused = CounterMetricFamily(semconv.METRIC_LIMIT_REFUSALS, "Requests that limits refused.", labels=("code",))
        for key, usage in list(self._accounts.since_start.items()):
            names = (key.key_id, key.team, key.feature, key.model)
            requests.add_metric(names, usage.requests)
            tokens.add_metric((*names, "input"), usage.prompt_tokens)
            tokens.add_metric((*names, "output"), usage.completion_tokens)
            cost.add_metric((*names, self._accounts.settings.currency), usage.cost_nanos / NANOS)
        for code, count in list(self._accounts.refusals.items()):
            refused.add_metric((code,), count)
        return requests, tokens, cost, refused, *self._saved(), *self._health()

    def _health(self) -> Iterable[Metric]:
        health = self._accounts.health
        events = CounterMetricFamily(semconv.METRIC_BOOKS_EVENTS, "What went wrong with the books.", labels=("event",))
        for event, count in list(health.counts.items()):
            events.add_metric((event,), count)
        trouble = GaugeMetricFamily(semconv.METRIC_BOOKS_TROUBLE, "1 while a part does not work.", labels=("part",))
        troubles = health.troubles
        for part in get_args(Part):
            trouble.add_metric((part,), float(part in troubles))
        return events, trouble

    def _saved(self) -> Iterable[Metric]:
        tokens = CounterMetricFamily(semconv.METRIC_CACHE_SAVED_TOKENS, "Tokens that hits saved.", labels=("model",))
        labels = ("model", "currency")
        cost = CounterMetricFamily(semconv.METRIC_CACHE_SAVED_COST, "Cost that hits saved.", labels=labels)
        for model, (count, nanos) in list(self._accounts.saved.items()):
            tokens.add_metric((model,), count)
            cost.add_metric((model, self._accounts.settings.currency), nanos / NANOS)
        return tokens, cost
