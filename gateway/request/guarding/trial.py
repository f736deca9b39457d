"""Try a text on every rail, for operators: what each would do with it, why, and at which characters.

Rails are asked one by one, whatever another one said, and nothing is counted, kept or acted upon: breakers, metrics and
traces do not learn of it. Input rails read the text as a request of one message, output rails as an answer.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sluicegate.gateway.rails.policy import RailSlot
from sluicegate.gateway.rails.stage_calls import contained
from sluicegate.gateway.rails.verdicts import category_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.guarding.judge import PIECE_CHARS, followed
from sluicegate.gateway.request.guarding.screening import RequestTexts, asked
from sluicegate.plugins import (
    InputRail,
    JudgingRail,
    OutputRail,
    RailSession,
    ScreenResult,
    SluicegateError,
    Verdict,
    offers,
)
from sluicegate.safety import CheckedSession, RailPolicy, is_built_in

MOST_PLACES = 1_000
MOST_SENTENCES = 40
MOST_REASONS = 20
"""Different reasons of one rail that are written out."""
LETTER_BY_LETTER = 20_000
"""A text of at most this many characters is passed to output rails one character at a time, to see where a block ends
it."""
WORST = ("pass", "redact", "escalate", "block")
_SENTENCE = re.compile(r"\S(?:[^\n]*?[^\s])??(?:(?<=[.!?])(?=\s)|(?=\s*(?:\n|\Z)))")


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """Characters [start, end) of the text that was tried."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RailTrial:
    """What one rail makes of a text. `action` is what its policy would have it do; `failed` where it could not say."""

    slot: RailSlot
    rail: str
    mode: str
    action: str
    reason: str = ""
    score: float | None = None
    places: tuple[FoundSpan, ...] = ()
    seconds: float = 0.0


async def tried(exchange: Exchange) -> list[RailTrial]:
    """Ask all rails about the one message of the request, in the order of the configuration."""
    text = exchange.request.messages[0].content
    found = []
    for name, rail in exchange.stages.screen:
        terms = exchange.safety.policy.rail_policy("screen", name)
        found.append(await _timed("screen", name, terms, _screened(exchange, name, rail, terms, text)))
    for name, output in exchange.stages.moderate:
        terms = exchange.safety.policy.rail_policy("moderate", name)
        found.append(await _timed("moderate", name, terms, _moderated(exchange, name, output, terms, text)))
    return found


async def _timed(slot: RailSlot, name: str, terms: RailPolicy, turn: Awaitable[RailTrial]) -> RailTrial:
    """Await one rail's trial and note how long it took. A rail that fails is reported as failed; the others are asked
    all the same."""
    began = time.perf_counter()
    try:
        trial = await contained(lambda: turn, "the rail")
    except Exception as error:
        said = error.message if isinstance(error, SluicegateError) else str(error)
        trial = RailTrial(slot, name, terms.mode, "failed", f"{type(error).__name__}: {said[:300]}")
    return dataclasses.replace(trial, seconds=round(time.perf_counter() - began, 6))


async def _screened(exchange: Exchange, name: str, rail: InputRail, terms: RailPolicy, text: str) -> RailTrial:
    request = exchange.request
    result = await asked(exchange, rail, RequestTexts(exchange), request, terms)
    action = terms.action(result.action, result.score)
    places = tuple(_marked(result, text))
    if not places and result.action != "pass" and is_built_in(rail):
        places = tuple([place async for place in _sentences(exchange, rail, terms, text)])
    return RailTrial("screen", name, terms.mode, action, result.reason, result.score, places[:MOST_PLACES])


def _marked(result: ScreenResult, text: str) -> Iterator[FoundSpan]:
    for mark in result.marks:
        if mark.path[:2] == ("messages", 0) and mark.start < mark.end <= len(text):
            yield FoundSpan(mark.label, mark.start, mark.end)


async def _sentences(exchange: Exchange, rail: InputRail, terms: RailPolicy, text: str) -> AsyncIterator[FoundSpan]:
    """Yield the sentences that the rail objects to by themselves, for a rail that judges whole texts."""
    for match in list(_SENTENCE.finditer(text))[:MOST_SENTENCES]:
        [message] = exchange.request.messages
        alone = dataclasses.replace(exchange.request, messages=(dataclasses.replace(message, content=match.group()),))
        result = await asked(exchange, rail, RequestTexts(exchange), alone, terms)
        if result.action != "pass":
            label = result.marks[0].label if result.marks else result.action
            yield FoundSpan(label, match.start(), match.end())


async def _moderated(exchange: Exchange, name: str, rail: OutputRail, terms: RailPolicy, text: str) -> RailTrial:
    request, caller = exchange.request, exchange.caller
    if offers(rail, JudgingRail):
        verdicts = [(len(text), verdict) for verdict in await followed(rail, terms, request, caller)]
    else:
        session = CheckedSession(rail.open(dataclasses.replace(request, messages=()), caller, "content"))
        verdicts = await exchange.stages.workers.run(caller.tenant, 10 * len(text), read_verdicts, session, text)
    return _trial_result(name, terms, verdicts, text)


def read_verdicts(session: RailSession, text: str) -> list[tuple[int, Verdict]]:
    """Feed `text` in small pieces; return (characters fed, verdict) wherever something was found, and at the end."""
    step = 1 if len(text) <= LETTER_BY_LETTER else PIECE_CHARS
    found: list[tuple[int, Verdict]] = []
    for at in range(0, len(text), step):
        piece = text[at : at + step]
        verdict = session.feed(piece)
        if verdict.redact or verdict.escalate or verdict.block is not None:
            found.append((at + len(piece), verdict))
        if verdict.block is not None:
            return found
    return [*found, (len(text), session.close())]


def _end(text: str, start: int, fed: int) -> int:
    """Return where the objectionable text ends. A rail names only where it objects from, and does so once it has read
    what follows, which may be a space or a stop."""
    return max(start + 1, start + len(text[start:fed].rstrip()))


def _trial_result(name: str, terms: RailPolicy, verdicts: Sequence[tuple[int, Verdict]], text: str) -> RailTrial:
    places: list[FoundSpan] = []
    reasons: dict[str, None] = {}
    action, before = "pass", 0
    scores = [score for _, verdict in verdicts for _, score in verdict.scores]
    for fed, verdict in verdicts:
        places += (FoundSpan(category_of(span.reason), span.start, span.end) for span in verdict.redact)
        said = [("redact", span.reason, -1) for span in verdict.redact]
        if verdict.escalate:
            said.append(("escalate", verdict.escalate, before if verdict.escalate_at is None else verdict.escalate_at))
        if verdict.block is not None:
            said.append((terms.on_block, verdict.block, verdict.clear_to))
        for does, reason, start in said:
            action = max(action, does, key=WORST.index)
            reasons[reason] = None
            if 0 <= start < fed:
                places.append(FoundSpan(category_of(reason), start, _end(text, start, fed)))
        before = verdict.clear_to
    reason = f"{name}: {', '.join(islice(reasons, MOST_REASONS))}" if reasons else ""
    if len(reasons) > MOST_REASONS:
        reason += f", and {len(reasons) - MOST_REASONS} more"
    return RailTrial(
        "moderate", name, terms.mode, action, reason, max(scores, default=None), tuple(places[:MOST_PLACES])
    )
