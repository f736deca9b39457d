"""Build judges of answers from their settings."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import cast

from sluicegate.plugins.addresses import key_in
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.construction import detector
from sluicegate.safety.detection.guards import guard_format
from sluicegate.safety.judging.cascade import CascadeJudge
from sluicegate.safety.judging.guard_reading import GuardAnswerJudge
from sluicegate.safety.judging.remote import ChatGuardJudge, GuardService, ModerationsJudge
from sluicegate.safety.judging.session import AnswerJudge, JudgeRail, JudgingPolicy, ScoreLimits, TextJudge
from sluicegate.safety.judging.settings import (
    AnswerGuardSettings,
    AnswerHarmSettings,
    AnswerProbeSettings,
    CascadeSettings,
    GuardServiceSettings,
    JudgingSettings,
    ScoringSettings,
    TokenGuardSettings,
)
from sluicegate.safety.judging.states import ProbeAnswerJudge
from sluicegate.safety.judging.text_classifier import ClassifierAnswerJudge
from sluicegate.safety.judging.token_guard import TokenGuardJudge


def harm(own: AnswerHarmSettings) -> JudgeRail:
    return rail("harm", _classifier(own), own, hashlib.sha256(Path(own.weights).read_bytes()).hexdigest()[:16])


def guard(own: AnswerGuardSettings) -> JudgeRail:
    return rail("guard", _guard(own), own, own.form)


def guard_service(own: GuardServiceSettings) -> JudgeRail:
    """Build the rail of a remote guard. Raises `ConfigurationError` if its key is missing."""
    return rail("guard-service", _service(own), own, own.form)


def token_guard(own: TokenGuardSettings) -> JudgeRail:
    judge = TokenGuardJudge(own.model, own.in_a_row, own.context_chars, judges_question=own.judge_question)
    return rail("token-guard", judge, own, f"{own.model}-{own.in_a_row}")


def probe(own: AnswerProbeSettings) -> JudgeRail:
    """Build the rail of the model's own probes. Its version covers its settings only: probes belong to the model, whose
    version is counted separately."""
    judge = ProbeAnswerJudge(own.labels, own.token_window)
    return rail("probe", judge, own, "1", token_limit=own.token_block)


def cascade(own: CascadeSettings) -> JudgeRail:
    """Build the rail of two judges. Raises `ConfigurationError`."""
    first = ProbeAnswerJudge(own.labels) if own.first == "probe" else _classifier(AnswerHarmSettings())
    second = _guard(own.guard) if own.guard is not None else _service(cast(GuardServiceSettings, own.service))
    form = own.guard.form if own.guard is not None else cast(GuardServiceSettings, own.service).form
    return rail("cascade", CascadeJudge(first, own.rings, second), own, f"{own.first}-{form}")


def _classifier(own: AnswerHarmSettings) -> AnswerJudge:
    return ClassifierAnswerJudge(detector(Path(own.weights)).harm, "harm", own.window_chars)


def _guard(own: AnswerGuardSettings) -> AnswerJudge:
    return GuardAnswerJudge(own.model, guard_format(own.form), own.policy, own.context_chars, own.max_new_tokens)


def _service(own: GuardServiceSettings) -> AnswerJudge:
    key = key_in(own.key_variable, "stages.moderate.guard-service", "key_variable") or ""
    service = GuardService(own.url.rstrip("/"), key, own.model, own.max_connections)
    if own.form == "moderations":
        return ModerationsJudge(service, own.window_chars)
    return ChatGuardJudge(service, guard_format(own.form), own.policy, own.context_chars, own.max_new_tokens)


def rail(
    name: str,
    judge: AnswerJudge | TextJudge,
    own: ScoringSettings,
    version: str,
    *,
    token_limit: float | None = None,
) -> JudgeRail:
    """Build a rail around `judge`. `version`: of the judge's rules or model; `token_limit`: score of a single token
    that stops an answer. Raises `ConfigurationError`."""
    made = policy(f"stages.moderate.{name}", own)
    if token_limit is not None:
        made = replace(made, tokens=ScoreLimits(block=token_limit))
    return JudgeRail(name, judge, made, own.channels, version, own.time_budget_s)


def policy(where: str, own: ScoringSettings) -> JudgingPolicy:
    limits = _limits(where, own.escalate, own.block)
    categories = {
        name: _limits(
            f"{where}.categories.{name}",
            limits.escalate if one.escalate is None else one.escalate,
            limits.block if one.block is None else one.block,
        )
        for name, one in own.categories.items()
    }
    if isinstance(own, JudgingSettings):
        return JudgingPolicy(limits, categories, own.unit_chars, own.longest_unit)
    return JudgingPolicy(limits, categories)


def _limits(where: str, escalate: float, block: float) -> ScoreLimits:
    if 1.0 >= escalate > block:
        raise ConfigurationError(
            f"[{where}] escalate = {escalate:g} is above block = {block:g}; what is blocked cannot be "
            "escalated as well, so lower it"
        )
    return ScoreLimits(escalate, block)
