"""A served model marks a sample of the answers of both versions, while the rollout goes on.

Which answers are marked is drawn by lot, before anybody looks at them. Judges run at the lowest priority, are charged
to no key, and one that fails says nothing of any version. Measure first how far the judge agrees with people:
`sluicegate eval` does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import uuid
from collections.abc import Callable

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.rollout.marking import INSTRUCTION, MARK_SCHEMA, RUBRIC, marking, question, score_of
from sluicegate.gateway.rollout.observation import Observation, text_of
from sluicegate.gateway.settings import RolloutSettings
from sluicegate.plugins import Caller, Constraint, Message, Request, Sampling, SluicegateError

log = logging.getLogger("sluicegate.rollout")
MAX_RUNNING = 4
"""Most judgements at a time; further samples are skipped."""
PRIORITY = 20
MAX_TOKENS = 400
TENANT = "judge"


class RolloutJudge:
    """Used on the event loop."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._running: set[asyncio.Task[None]] = set()

    def consider(
        self, exchange: Exchange, seen: Observation, settings: RolloutSettings, add: Callable[[Observation], None]
    ) -> None:
        """Have the first answer of a share of the requests marked, and hand the observation to `add`."""
        if not settings.judge or not exchange.answers or random.random() >= settings.judge_share:
            return
        if len(self._running) >= MAX_RUNNING or exchange.answers[0].refusal is not None:
            return
        turns = [(message.role, message.content) for message in exchange.request.messages]
        asked = marking(question(turns, settings.rubric or RUBRIC), text_of(exchange.answers[0]))
        task = asyncio.create_task(self._judge(asked, settings.judge, seen, add))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _judge(self, asked: str, model: str, seen: Observation, add: Callable[[Observation], None]) -> None:
        request = Request(
            id=f"judge-{uuid.uuid4().hex}",
            model=model,
            messages=(Message("system", INSTRUCTION), Message("user", asked)),
            sampling=Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
            constraint=Constraint("json_schema", MARK_SCHEMA, name="verdict"),
            cache=False,
            priority=PRIORITY,
        )
        try:
            [answer] = (await self._pipeline.answer_with(request, Caller(tenant=TENANT), model)).answers
            score = score_of(json.loads(answer.text))
        except (SluicegateError, ValueError, LookupError, TypeError) as error:
            log.info("the judge %s gave no mark: %s", model, type(error).__name__)
            return
        add(Observation(seen.route, seen.version, seen.share, {"judge": 1 - score}, counts=False))
