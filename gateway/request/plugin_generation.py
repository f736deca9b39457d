"""A generation of a plug-in, contained: what it raises, yields and counts is checked before anything uses it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import AsyncGeneratorType
from typing import Any, TypeVar, get_args

from sluicegate.gateway.rails.stage_calls import StageMisbehaved, Unfinished, at_once, begun, contained
from sluicegate.plugins import (
    CLOSED_BY,
    DeadlineExceeded,
    FinishReason,
    Generation,
    GenerationFailed,
    Job,
    Piece,
    SluicegateError,
    Timeline,
    TokenLogprob,
    TokenScores,
    Usage,
)
from sluicegate.plugins.errors import SEND_AGAIN
from sluicegate.safety import is_whole_text

log = logging.getLogger("sluicegate.pipeline")
T = TypeVar("T")
FINISH_REASONS = get_args(FinishReason)
TURN_S = 0.02
"""Seconds after which pieces that are there at once wait for the other requests."""
NEEDED = ("begin", "cancel", "__aiter__")


class PluginGeneration:
    """Passes on what `generation` does for `job`. Raises `GenerationFailed` in place of anything that is no
    `SluicegateError`, and for pieces that are none; `DeadlineExceeded` once the job's time is over."""

    def __init__(self, stage: str, generation: Generation, job: Job) -> None:
        """Wrap `generation`. Raises `StageMisbehaved` for what is none."""
        for name in NEEDED:
            if not callable(getattr(generation, name, None)):
                raise StageMisbehaved(f"generate() answered {type(generation).__name__}, which has no {name}()")
        self._stage = stage
        self._generation = generation
        self._n = job.n
        self._ends_at = None if job.deadline_s is None else time.monotonic() + job.deadline_s
        self._usage = Usage()
        self._cancelled = False

    def __getattr__(self, name: str) -> Any:
        """Return what the generation offers besides, such as its tries at other servers."""
        return getattr(self._generation, name)

    async def begin(self) -> None:
        found = begun(self._generation.begin)
        if isinstance(found, Unfinished):
            await self._in_time(found, "begin()")

    async def __aiter__(self) -> AsyncIterator[Piece]:
        unfinished = set(range(self._n))
        pieces = begun(self._iterator)
        if isinstance(pieces, Unfinished):
            pieces = await self._in_time(pieces, "__aiter__()")
        begin: Callable[[], Any] = partial(anext, pieces)
        is_generator = type(pieces) is AsyncGeneratorType
        turn_ends_at = time.monotonic() + TURN_S
        try:
            while True:
                piece: Any = at_once(begin()) if is_generator else Unfinished(begin)
                if isinstance(piece, Unfinished):
                    try:
                        piece = await self._in_time(piece, "the generation")
                    except StopAsyncIteration:
                        break
                if time.monotonic() > turn_ends_at:  # it may have pieces without end, and never wait
                    await self._in_time(Unfinished(partial(asyncio.sleep, 0)), "the generation")
                    turn_ends_at = time.monotonic() + TURN_S
                if wrong := _fault(piece, self._n):
                    raise self._failed(f"the generation yielded {wrong}")
                if piece.finish_reason is not None:
                    unfinished.discard(piece.index)
                yield piece
        finally:
            if callable(close := getattr(pieces, "aclose", None)):
                await self._quietly(close)
        if unfinished and not self._cancelled:
            raise self._failed(f"the generation ended, and choice {min(unfinished)} has no finish_reason")

    def cancel(self) -> None:
        self._cancelled = True
        try:
            self._generation.cancel()
        except BaseException as error:
            self._note("cancel()", error)

    @property
    def usage(self) -> Usage:
        """Return the usage, or the last one that could be read."""
        try:
            found = self._generation.usage
        except BaseException as error:
            self._note("usage", error)
        else:
            if isinstance(found, Usage):
                self._usage = found
        return self._usage

    @property
    def timeline(self) -> Timeline | None:
        try:
            found = self._generation.timeline
        except BaseException as error:
            self._note("timeline", error)
            return None
        return found if isinstance(found, Timeline) else None

    async def _iterator(self) -> AsyncIterator[Piece]:
        return aiter(self._generation)

    async def _in_time(self, work: Unfinished[T], named: str) -> T:
        left_s = None if self._ends_at is None else self._ends_at - time.monotonic()
        try:
            return await in_time(left_s, work, named, self._stage)
        except (SluicegateError, StopAsyncIteration):
            raise
        except Exception as error:
            log.error("stage %s of slot generate failed", self._stage, exc_info=error)
            ours = isinstance(error, StageMisbehaved)
            raise self._failed(str(error) if ours else f"{named} raised {type(error).__name__}") from error

    async def _quietly(self, call: Callable[[], Awaitable[object]]) -> None:
        found = begun(call)
        if not isinstance(found, Unfinished):
            return
        try:
            await contained(found.rest, "aclose()")
        except Exception:
            log.exception("stage %s of slot generate did not close its generation", self._stage)

    def _note(self, named: str, error: BaseException) -> None:
        log.error("stage %s of slot generate: %s failed", self._stage, named, exc_info=error)

    def _failed(self, why: str) -> GenerationFailed:
        told = f"generator {self._stage!r} failed; {SEND_AGAIN}"
        return GenerationFailed(told, cause=why)


async def in_time(left_s: float | None, work: Unfinished[T], named: str, stage: str) -> T:
    """Return the result of `work`, contained. It runs in this task: a generator may hold what belongs to a task over
    several pieces. Raises `DeadlineExceeded` after `left_s` seconds."""
    try:
        async with asyncio.timeout(left_s) as limit:
            return await contained(work.rest, named)
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"the request's time ran out while generator {stage!r} answered; allow more, or ask for fewer tokens"
        raise DeadlineExceeded(message) from None


def _fault(piece: object, n: int) -> str:
    """Return what is wrong with the fields of a piece of one of `n` choices that the way of an answer rests on; "" if
    nothing is."""
    if not isinstance(piece, Piece):
        return f"a {type(piece).__name__}, expected Piece"
    if type(piece.index) is not int or not 0 <= piece.index < n:
        return f"a piece of choice {piece.index!r} of {n}"
    if not isinstance(piece.text, str) or not is_whole_text(piece.text):
        return "a piece whose text is no Unicode string"
    if piece.finish_reason is not None and piece.finish_reason not in FINISH_REASONS:
        return f"finish_reason {piece.finish_reason!r}, expected one of {', '.join(FINISH_REASONS)}"
    if piece.closed not in CLOSED_BY or not isinstance(piece.stopped_by, str):
        return "a piece whose `closed` or `stopped_by` is none"
    if type(piece.call) is not int or piece.call < 0 or not (piece.tool is None or isinstance(piece.tool, str)):
        return "a piece whose `call` or `tool` is none"
    if not isinstance(piece.channel, str):
        return f"a piece whose `channel` is a {type(piece.channel).__name__}"
    if piece.logprobs and not (isinstance(piece.logprobs, tuple) and all(map(_is_logprob, piece.logprobs))):
        return "a piece whose `logprobs` are no tuple of whole TokenLogprob"
    if not _are_scores(piece.probed):
        return "a piece whose `probed` is no tuple of mappings, and no TokenScores"
    if type(piece.behind) is not bool:
        return "a piece whose `behind` is none"
    if piece.joined and not _adds_up(piece):
        return "a piece whose `joined` does not add up to its text and `probed`"
    return ""


def _are_scores(probed: object) -> bool:
    return type(probed) is TokenScores or (
        isinstance(probed, tuple) and all(isinstance(scores, Mapping) for scores in probed)
    )


def _adds_up(piece: Piece) -> bool:
    parts = piece.joined
    pairs = isinstance(parts, tuple) and all(isinstance(one, tuple) and len(one) == 2 for one in parts)
    if not pairs or not all(type(number) is int and number >= 0 for one in parts for number in one):
        return False
    size, scores = sum(one[0] for one in parts), sum(one[1] for one in parts)
    return scores == len(piece.probed) and (piece.behind or size == len(piece.text))


def _is_logprob(found: object) -> bool:
    return (
        isinstance(found, TokenLogprob)
        and isinstance(found.top, tuple)
        and all(isinstance(one, tuple) and len(one) == 4 for one in found.top)
        and all(map(_is_token, ((found.token_id, found.token, found.data, found.logprob), *found.top)))
    )


def _is_token(found: tuple[object, ...]) -> bool:
    number, token, data, logprob = found
    return (
        isinstance(number, int)
        and isinstance(token, str)
        and isinstance(data, bytes)
        and isinstance(logprob, int | float)
    )
