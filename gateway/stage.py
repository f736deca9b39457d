"""The gateway's own stages: keys, routing by name, the chat template, and the recorders."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from sluicegate.gateway.accounts import Accounts, Ledger, LimitsStage
from sluicegate.gateway.accounts.api_keys import ApiKeys
from sluicegate.gateway.prompts.chat_template import ChatTemplate
from sluicegate.gateway.request.tracing.capture import wanted
from sluicegate.gateway.routing import ByName
from sluicegate.gateway.routing.tiers import Tiers
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.telemetry import Metrics, MetricsRecorder
from sluicegate.gateway.upstream.settings import UpstreamSettings
from sluicegate.plugins import ConfigurationError, Outcome, RegistryLike

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
        )


def register(registry: RegistryLike, settings: Settings, metrics: Metrics, accounts: Accounts) -> None:
    rails = {*settings.pipeline.screen, *settings.pipeline.moderate}
    registry.add("admit", "api-keys", lambda table: _plain(table, ApiKeys(accounts.keyring, rails)))
    registry.add("admit", "limits", lambda table: _plain(table, LimitsStage(accounts)))
    registry.add("record", "ledger", lambda table: _plain(table, Ledger(accounts)))
    registry.add("route", "by-name", lambda table: _plain(table, ByName()))
    registry.add("route", "tiers", lambda table: Tiers(**table))
    registry.add("assemble", "chat-template", _chat_template)
    shows = wanted(os.environ, settings.telemetry.content)
    registry.add("generate", "upstream", lambda table: _upstream(table, shows))
    registry.add("record", "metrics", lambda table: _plain(table, MetricsRecorder(metrics)))
    registry.add("record", "log", lambda table: _plain(table, LogRecorder()))


def _plain(table: Mapping[str, Any], stage: Any) -> Any:
    if table:
        raise ConfigurationError(f"this stage has no settings, found {', '.join(sorted(table))}")
    return stage


def _upstream(table: Mapping[str, Any], shows_messages: bool) -> Any:
    from sluicegate.gateway.upstream.generator import Upstream  # aiohttp takes 0.2 s to import

    return Upstream(UpstreamSettings.of(table), shows_messages=shows_messages)


def _chat_template(table: Mapping[str, Any]) -> ChatTemplate:
    unknown = set(table) - {"show_schema"}
    if unknown:
        raise ConfigurationError(f"chat-template has no {sorted(unknown)[0]!r}; valid names: show_schema")
    return ChatTemplate(**table)
