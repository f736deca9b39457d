"""Make judges of answers of their settings."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.construction import detector
from sluicegate.safety.detection.guards import guard_format
from sluicegate.safety.judging.guard_reading import GuardAnswerJudge
from sluicegate.safety.judging.remote import ChatGuardJudge, GuardService, ModerationsJudge
from sluicegate.safety.judging.session import AnswerJudge, JudgeRail, JudgingPolicy, ScoreLimits
from sluicegate.safety.judging.settings import (
    AnswerGuardSettings,
    AnswerHarmSettings,
    GuardServiceSettings,
    JudgingSettings,
)
from sluicegate.safety.judging.text_classifier import ClassifierAnswerJudge


def harm(own: AnswerHarmSettings) -> JudgeRail:
    path = Path(own.weights)
    judge = ClassifierAnswerJudge(detector(path).harm, "harm", own.window_chars)
    return rail("harm", judge, own, hashlib.sha256(path.read_bytes()).hexdigest()[:16])


def guard(own: AnswerGuardSettings) -> JudgeRail:
    form = guard_format(own.form)
    judge = GuardAnswerJudge(own.model, form, own.policy, own.context_chars, own.max_new_tokens)
    return rail("guard", judge, own, own.form)


def guard_service(own: GuardServiceSettings) -> JudgeRail:
    """Raises `ConfigurationError` where the key is missing."""
    key = os.environ.get(own.key_variable, "") if own.key_variable else ""
    if own.key_variable and not key:
        raise ConfigurationError(f"[stages.moderate.guard-service] the environment has no {own.key_variable!r}")
    service = GuardService(own.url.rstrip("/"), key, own.model, own.max_connections)
    judge: AnswerJudge
    if own.form == "moderations":
        judge = ModerationsJudge(service, own.window_chars)
    else:
        judge = ChatGuardJudge(service, guard_format(own.form), own.context_chars, own.max_new_tokens)
    return rail("guard-service", judge, own, own.form)


def rail(name: str, judge: AnswerJudge, own: JudgingSettings, version: str) -> JudgeRail:
    """`version`: of what the judge goes by. Raises `ConfigurationError`."""
    return JudgeRail(name, judge, policy(f"stages.moderate.{name}", own), own.channels, version, own.time_budget_s)


def policy(where: str, own: JudgingSettings) -> JudgingPolicy:
    limits = _limits(where, own.escalate, own.block)
    categories = {
        name: _limits(
            f"{where}.categories.{name}",
            limits.escalate if one.escalate is None else one.escalate,
            limits.block if one.block is None else one.block,
        )
        for name, one in own.categories.items()
    }
    return JudgingPolicy(limits, categories, own.unit_chars, own.longest_unit)


def _limits(where: str, escalate: float, block: float) -> ScoreLimits:
    if 1.0 >= escalate > block:
        raise ConfigurationError(
            f"[{where}] escalate = {escalate:g} is above block = {block:g}; what is blocked cannot be "
            "escalated as well, so lower it"
        )
    return ScoreLimits(escalate, block)
