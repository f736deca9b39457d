"""The gateway's own stages: keys, routing by name, the chat template, and the recorders."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from sluicegate.gateway.accounts import Accounts, ApiKeys, Ledger, LimitsStage
from sluicegate.gateway.retrieval.settings import HttpRetrieverSettings, VectorSetSettings
from sluicegate.gateway.routing.by_name import ByName
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.upstream.settings import UpstreamSettings
from sluicegate.plugins import NoSettings, Outcome, RegistryLike, Stage, add_stage
from sluicegate.plugins.settings import later

if TYPE_CHECKING:  # OpenTelemetry and Prometheus, which lists of stages do without
    from sluicegate.gateway.telemetry import Metrics

log = logging.getLogger("sluicegate.requests")


class LogRecorder:
    """One line a request; never a prompt, an answer or a key."""

    async def record(self, outcome: Outcome) -> None:
        ended = outcome.error or ",".join(answer.finish_reason for answer in outcome.answers) or "none"
        log.info(
            "%s model=%s tenant=%s ended=%s prompt_tokens=%d completion_tokens=%d seconds=%.3f%s",
            outcome.request.id,
            outcome.model,
            outcome.caller.tenant,
            ended,
            outcome.usage.prompt_tokens,
            outcome.usage.completion_tokens,
            outcome.duration_s,
            " cached" if outcome.cached else "",
            extra={"facts": _facts(outcome, ended)},
        )


def _facts(outcome: Outcome, ended: str) -> dict[str, object]:
    """Return the facts of a request, for logs in JSON."""
    return {
        "request_id": outcome.request.id,
        "trace_id": outcome.trace_id,
        "model": outcome.model,
        "tenant": outcome.caller.tenant,
        "key_id": outcome.caller.key_id,
        "ended": ended,
        "prompt_tokens": outcome.usage.prompt_tokens,
        "completion_tokens": outcome.usage.completion_tokens,
        "seconds": round(outcome.duration_s, 6),
        "cached": outcome.cached,
    }


def register(registry: RegistryLike, settings: Settings, metrics: Metrics | None, accounts: Accounts) -> None:
    rails = {*settings.pipeline.screen, *settings.pipeline.moderate}
    content = settings.telemetry.content
    add_stage(registry, "admit", "api-keys", NoSettings, lambda _: ApiKeys(accounts.keyring, rails))
    add_stage(registry, "admit", "limits", NoSettings, lambda _: LimitsStage(accounts))
    add_stage(registry, "route", "by-name", NoSettings, lambda _: ByName())
    registry.add("route", "tiers", later("sluicegate.gateway.routing.tiers", "tiers"))
    retrievers = "sluicegate.gateway.retrieval"
    add_stage(registry, "retrieve", "http", HttpRetrieverSettings, later(f"{retrievers}.http", "http_retriever"))
    add_stage(registry, "retrieve", "vector-set", VectorSetSettings, later(f"{retrievers}.vector_set", "vector_set"))
    registry.add("assemble", "chat-template", later("sluicegate.gateway.prompts.chat_template", "chat_template"))
    add_stage(registry, "generate", "upstream", UpstreamSettings, lambda found: _upstream(found, content))
    add_stage(registry, "record", "ledger", NoSettings, lambda _: Ledger(accounts))
    add_stage(registry, "record", "metrics", NoSettings, lambda _: _metrics_recorder(metrics))
    add_stage(registry, "record", "log", NoSettings, lambda _: LogRecorder())


def _upstream(settings: UpstreamSettings, content: bool) -> Stage:
    from sluicegate.gateway.request.tracing.capture import wanted
    from sluicegate.gateway.upstream.generator import Upstream  # transformers, only where it is used

    return Upstream(settings, shows_messages=wanted(os.environ, content))


def _metrics_recorder(metrics: Metrics | None) -> Stage:
    from sluicegate.gateway.telemetry import Metrics, MetricsRecorder

    return MetricsRecorder(metrics or Metrics())
