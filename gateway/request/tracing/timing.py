"""One `Decision` for every stage that ran. A stage's own failure closes the request, never opens it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from sluicegate.gateway.rails.stage_calls import failed_stage
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.telemetry import ReportedError
from sluicegate.plugins import Decision, RequestError, ServiceError, SlotName, SluicegateError

log = logging.getLogger("sluicegate.pipeline")


class StageNote:
    """What the stage being timed decided."""

    __slots__ = ("detail", "outcome")

    outcome: str
    detail: dict[str, Any]


class TimedStage(StageNote):
    """Context manager around one stage, whose `Decision` is kept however it ends. Raises what the stage raised where
    that is one of our errors, else `StageFailed`. A class and no generator, since a request has a dozen of them."""

    __slots__ = ("_exchange", "_slot", "_stage", "_started")

    def __init__(self, exchange: Exchange, slot: SlotName, stage: str) -> None:
        self._exchange, self._slot, self._stage = exchange, slot, stage
        self.outcome, self.detail = "ok", {}

    def __enter__(self) -> StageNote:
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        broke = error is not None and self._broke(error)
        exchange, started = self._exchange, self._started
        took, began = time.perf_counter() - started, started - exchange.entry.started_at
        exchange.decisions.append(Decision(self._slot, self._stage, self.outcome, took, self.detail, began))
        if error is not None and broke:
            raise failed_stage(self._slot, self._stage, error) from error

    def _broke(self, error: BaseException) -> bool:
        """Note the outcome of `error` and return whether it is a failure of the stage itself."""
        if isinstance(error, SluicegateError) or (
            isinstance(error, asyncio.CancelledError) and cancelled_from_outside()
        ):
            if self.outcome == "ok":
                self.outcome = error_code(error)
            return False
        if isinstance(error, GeneratorExit):
            return False  # the request is being dropped; a plug-in's own is contained where it is called
        self.outcome = "failed"
        log.error("stage %s of slot %s failed", self._stage, self._slot, exc_info=error)
        return True


def cancelled_from_outside() -> bool:
    """Return whether somebody cancelled the current task; a plug-in may also raise `CancelledError` by itself, which
    nobody would answer."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def error_code(error: BaseException) -> str:
    if isinstance(error, SluicegateError):
        return error.code
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return "internal_error"


def failure_of(error: BaseException | None) -> ReportedError | None:
    """Return what a caller is told of `error`, and its cause; None where nothing failed, or nobody is there to be
    told."""
    if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
        return None
    if isinstance(error, RequestError | ServiceError):
        return ReportedError(error.status, error.message, getattr(error, "cause", ""))
    if isinstance(error, SluicegateError):
        return ReportedError(500, error.message)
    return ReportedError(500, "an internal error; the log has it", type(error).__name__)
