"""Judge a text without generating: by the rails of both slots, under the policy of the caller.

Input rails read it as a request of one user message, output rails as an answer. A rail in shadow is reported among the
categories and flags nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from sluicegate.gateway.prompts.lengths import size_of
from sluicegate.gateway.rails.judged_text import PART
from sluicegate.gateway.rails.policy import RailSlot
from sluicegate.gateway.rails.stage_calls import LONGEST_S, contained, failed_stage, within
from sluicegate.gateway.rails.states import reads_states
from sluicegate.gateway.rails.verdicts import category_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.guarding.screening import RequestTexts, asked, sound
from sluicegate.plugins import (
    Caller,
    InputRail,
    JudgingRail,
    JudgingTerms,
    Message,
    OutputRail,
    Overloaded,
    RailSession,
    RateLimited,
    Request,
    RequestError,
    SluicegateError,
    Verdict,
    offers,
    properties_of,
)
from sluicegate.safety import CheckedSession, RailPolicy, check_verdict

PIECE_CHARS = 8192
MAX_CATEGORIES = 512
"""Most categories that a text is said to be of."""


@dataclass(slots=True)
class Judgement:
    """`scores` by category, 0 to 1: a rail's name, and for rails that match `rail/label`, without the place or score
    that may follow it in a reason. `hits`: those that count."""

    flagged: bool = False
    scores: dict[str, float] = field(default_factory=dict)
    hits: set[str] = field(default_factory=set)
    not_enforced: list[str] = field(default_factory=list)

    def add(self, category: str, action: str, score: float, *, acts: bool) -> None:
        """Note a finding. Of more than `MAX_CATEGORIES` the rest is `other`."""
        if category not in self.scores and len(self.scores) >= MAX_CATEGORIES:
            category = "other"
        self.scores[category] = max(score, self.scores.get(category, 0.0))
        if action != "pass":
            self.hits.add(category)
            self.flagged = self.flagged or acts


async def judge(exchange: Exchange, text: str) -> Judgement:
    """Ask all rails about `text`. Raises `StageFailed` where a rail failed that must not be passed over. Yields to the
    event loop before each text: a request may have hundreds."""
    await asyncio.sleep(0)
    judgement = Judgement()
    request = dataclasses.replace(exchange.request, messages=(Message("user", text),), nbytes=len(text))
    listed = RequestTexts(exchange)
    for name, rail in exchange.stages.screen:
        if (rail_policy := _called(exchange, "screen", name, judgement)) is not None:
            await _screened(exchange, name, rail, rail_policy, listed, request, judgement)
    for name, output in exchange.stages.moderate:
        if reads_states(output):
            judgement.not_enforced.append(f"moderate {name}: judges answers as they are generated, and no texts")
            continue
        if (rail_policy := _called(exchange, "moderate", name, judgement)) is not None:
            await _moderated(exchange, name, output, rail_policy, request, judgement)
    return judgement


def _called(exchange: Exchange, slot: RailSlot, name: str, judgement: Judgement) -> RailPolicy | None:
    rail_policy = exchange.safety.policy.rail_policy(slot, name)
    if rail_policy.mode == "off":
        return None
    if not exchange.stages.rail_health.runs(slot, name, rail_policy):
        judgement.not_enforced.append(f"{slot} {name}: failed open")
        return None
    if rail_policy.mode == "shadow":
        judgement.not_enforced.append(f"{slot} {name}: in shadow")
    return rail_policy


async def _screened(
    exchange: Exchange,
    name: str,
    rail: InputRail,
    rail_policy: RailPolicy,
    listed: RequestTexts,
    request: Request,
    judgement: Judgement,
) -> None:
    try:
        result = await asked(exchange, rail, listed, request, rail_policy)
    except (RequestError, Overloaded):
        raise
    except Exception as error:
        await exchange.stages.rail_health.failed_at_work("screen", name, rail_policy, lambda: sound(rail, rail_policy))
        _failed("screen", name, rail_policy, judgement, error)
        return
    exchange.stages.rail_health.succeeded("screen", name, rail_policy)
    action = rail_policy.action(result.action, result.score)
    score = result.score if result.score is not None else float(action != "pass")
    judgement.add(name, action, score, acts=rail_policy.mode == "enforce")


async def _moderated(
    exchange: Exchange, name: str, rail: OutputRail, rail_policy: RailPolicy, request: Request, judgement: Judgement
) -> None:
    """Ask an output rail; it reads long texts in a thread, or judges them in its own time."""
    judgement.scores.setdefault(name, 0.0)
    try:
        if offers(rail, JudgingRail):
            judged = partial(followed, rail, rail_policy, request, exchange.caller)
        else:
            judged = partial(_sessions_verdicts, exchange, rail, request)
        verdicts = await contained(judged, "the rail")
        labels = [label for verdict in verdicts for label in _labels(verdict)]
    except (RateLimited, Overloaded):
        raise
    except Exception as error:
        exchange.stages.rail_health.failed_writing(name, rail, rail_policy)
        _failed("moderate", name, rail_policy, judgement, error)
        return
    exchange.stages.rail_health.succeeded("moderate", name, rail_policy)
    scores: dict[str, float] = {}
    for category, score in [pair for verdict in verdicts for pair in verdict.scores]:
        scores[category] = max(score, scores.get(category, 0.0))
        judgement.add(f"{name}/{category}", "pass", score, acts=False)
    for label in labels:
        for category in (name, f"{name}/{category_of(label)}"):
            judgement.add(category, "redact", scores.get(label, 1.0), acts=rail_policy.mode == "enforce")


async def _sessions_verdicts(exchange: Exchange, rail: OutputRail, request: Request) -> list[Verdict]:
    session = CheckedSession(rail.open(request, exchange.caller, "content"))
    size, text = size_of(exchange.request), request.messages[0].content
    return await exchange.stages.workers.run(exchange.caller.tenant, size, _read, session, text)


async def followed(rail: JudgingRail, rail_policy: RailPolicy, request: Request, caller: Caller) -> list[Verdict]:
    """Judge the text as an answer to nothing that was said before; in pieces, so that a budget is that of one look."""
    terms = JudgingTerms("", rail_policy.escalate, rail_policy.block)
    text, alone = request.messages[0].content, dataclasses.replace(request, messages=())
    session = rail.follow(alone, caller, "content", terms)
    declared = properties_of(rail)
    limit_s = rail_policy.budget_s or (declared.budget_s if declared is not None else None) or LONGEST_S
    verdicts: list[Verdict] = []
    clear_to = 0
    for at in range(0, len(text), PART):
        piece = text[at : at + PART]
        verdict = await within(limit_s, partial(session.feed, piece), "feed()")
        verdict = check_verdict(verdict, clear_to, at + len(piece), closing=False, redacts=False)
        verdicts.append(verdict)
        if verdict.block is not None:
            return verdicts
        clear_to = verdict.clear_to
    last = await within(limit_s, session.close, "close()")
    return [*verdicts, check_verdict(last, clear_to, len(text), closing=True, redacts=False)]


def _read(session: RailSession, text: str) -> list[Verdict]:
    """Feed `text` in pieces, so that a rail in compiled code releases the GIL between them. Stops at a block."""
    verdicts: list[Verdict] = []
    for at in range(0, len(text), PIECE_CHARS):
        verdicts.append(session.feed(text[at : at + PIECE_CHARS]))
        if verdicts[-1].block is not None:
            return verdicts
    return [*verdicts, session.close()]


def _labels(verdict: Verdict) -> Iterator[str]:
    yield from (span.reason for span in verdict.redact)
    yield from (reason for reason in (verdict.block, verdict.escalate) if reason)


def _failed(slot: RailSlot, name: str, rail_policy: RailPolicy, judgement: Judgement, error: Exception) -> None:
    if not rail_policy.may_fail:
        is_told = isinstance(error, SluicegateError) and slot == "screen"
        raise error if is_told else failed_stage(slot, name, error) from error
    judgement.not_enforced.append(f"{slot} {name}: failed open")
