"""A model as the judge of replies: marks by a rubric, and which of two is better, asked in both orders.

Models prefer what they read first (Zheng et al. 2023), so a preference counts only where it survives the swap. How far
the judge agrees with people is measured on the cases that people marked, before any figure of the judge is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from sluicegate.gateway.commands.eval.asking import AskedCase, Variant, ask
from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.eval.checks import CheckScore
from sluicegate.gateway.commands.statistics import kappa
from sluicegate.gateway.rollout.marking import (
    INSTRUCTION,
    MARK_SCHEMA,
    MARKS,
    RUBRIC,
    marking,
    question,
    quoted,
    score_of,
)
from sluicegate.plugins import ConfigurationError

PREFERENCE_SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 400},
        "better": {"enum": ["first", "second", "equal"]},
    },
    "required": ["reason", "better"],
    "additionalProperties": False,
}
Winner = Literal["left", "right", "tie"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of judge and people on `n` marked answers: share of equal marks, and weighted kappa."""

    n: int
    equal: float
    kappa: float | None


class ModelJudge:
    """Asks the model `who` by the suite's `[judge]` table, at most `parallel` questions at a time."""

    def __init__(self, client: httpx.AsyncClient, who: Variant, table: Mapping[str, Any], parallel: int) -> None:
        self._client = client
        self._who = who
        self._rubric = str(table.get("rubric", RUBRIC))
        self._request = dict(table.get("request", {}))
        self._places = asyncio.Semaphore(parallel)

    async def check(self, options: Mapping[str, Any], asked: AskedCase) -> CheckScore:
        """Mark a reply; passes at `at_least` (0.75). Raises `JudgeFailed`."""
        score, reason = await self._mark(asked.case, reply_text(asked), str(options.get("rubric", self._rubric)))
        return CheckScore("judge", score, score >= float(options.get("at_least", 0.75)) - 1e-9, reason)

    async def agreement(self, cases: Sequence[Case]) -> Agreement | None:
        """Mark the answers that people marked. None where there are none. Raises `ConfigurationError`."""
        marked = [case for case in cases if case.human is not None]
        if not marked:
            return None
        try:
            told = await asyncio.gather(
                *(self._mark(case, str(case.expected), self._rubric_of(case)) for case in marked)
            )
        except JudgeFailed as failed:
            raise ConfigurationError(f"the judge cannot be asked: {failed}") from failed
        people, model = [case.human or 0.0 for case in marked], [score for score, _ in told]
        steps = MARKS - 1
        equal = sum(round(a * steps) == round(b * steps) for a, b in zip(people, model, strict=True))
        return Agreement(len(marked), equal / len(marked), kappa(people, model, MARKS))

    async def prefer(self, left: AskedCase, right: AskedCase) -> Winner | None:
        """Say which reply is better, where both orders agree; None where the judge could not be asked."""
        rubric = self._rubric_of(left.case)
        try:
            one = await self._better(left.case, reply_text(left), reply_text(right), rubric)
            other = await self._better(left.case, reply_text(right), reply_text(left), rubric)
        except JudgeFailed:
            return None
        if (one, other) == ("first", "second"):
            return "left"
        return "right" if (one, other) == ("second", "first") else "tie"

    def _rubric_of(self, case: Case) -> str:
        return next((str(c["rubric"]) for c in case.checks if c["type"] == "judge" and "rubric" in c), self._rubric)

    async def _mark(self, case: Case, answer: str, rubric: str) -> tuple[float, str]:
        told = await self._told(marking(_question(case, rubric), answer), MARK_SCHEMA)
        try:
            return score_of(told), str(told["reason"])
        except (ValueError, TypeError) as error:
            raise JudgeFailed(str(error)) from error

    async def _better(self, case: Case, first: str, second: str, rubric: str) -> str:
        asked = f"{_question(case, rubric)}\n\nFirst answer:\n{quoted(first)}\n\nSecond answer:\n{quoted(second)}"
        return str((await self._told(asked, PREFERENCE_SCHEMA))["better"])

    async def _told(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        body = {
            "model": self._who.model,
            "temperature": 0,
            "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}},
            **({} if self._who.plain else {"sluicegate": {"cache": False}}),
            **self._request,
        }
        async with self._places:
            reply = await ask(self._client, self._who, body)
        try:
            found = reply.value
        except ValueError:
            raise JudgeFailed(reply.error or f"it said {reply.text[:100]!r}") from None
        if not isinstance(found, dict) or not found.keys() >= set(schema["required"]):
            raise JudgeFailed(f"it said {reply.text[:100]!r}")
        return found


class JudgeFailed(Exception):
    """Says why there is no verdict."""


def reply_text(asked: AskedCase) -> str:
    """Return what a judge reads of a reply."""
    calls = "".join(f"\n[calls {call.name} with {call.arguments}]" for call in asked.reply.tool_calls)
    return (asked.reply.text + calls).strip() or "(nothing)"


def _question(case: Case, rubric: str) -> str:
    reference = "" if case.expected is None or case.human is not None else str(case.expected)
    return question([(str(m["role"]), str(m.get("content"))) for m in case.messages], rubric, reference)
