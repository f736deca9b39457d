"""Report invalid answers: our bug where our masks constrained them, else the upstream's."""

from __future__ import annotations

import logging

from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.guarding.restore import with_values
from sluicegate.gateway.telemetry import Metrics
from sluicegate.plugins import GenerationFailed, ServiceError, UpstreamFailed

log = logging.getLogger("sluicegate.pipeline")


class InvalidAnswers:
    def __init__(self, metrics: Metrics, validator: Validator) -> None:
        self._metrics = metrics
        self._validator = validator

    def note(self, exchange: Exchange, complaint: str, then: str) -> None:
        """Count and log a broken answer. `complaint` is the validator's, which quotes no value of the answer; `then`
        says what becomes of the answer."""
        exchange.broken = True
        if exchange.served.remote:
            log.warning("request %s: %s, so it is %s", exchange.request.id, _of_another(exchange), then)
            return
        self._metrics.invalid_answers.inc()
        log.error("request %s: an answer broke its schema (%s); it is %s", exchange.request.id, complaint, then)

    @staticmethod
    def error(exchange: Exchange, message: str) -> ServiceError:
        """Return the error for a caller whose answer stays invalid. `message` is used where the bug is ours."""
        return UpstreamFailed(_of_another(exchange)) if exchange.served.remote else GenerationFailed(message)

    def check_streamed(self, exchange: Exchange, index: int) -> None:
        """Check a choice before it is called finished. A broken one ends as an error, which no client takes for an
        answer. Raises `GenerationFailed` or `UpstreamFailed`."""
        assert exchange.moderation is not None
        answer = exchange.moderation.answers()[index]
        shown = with_values(exchange, answer) if exchange.safety.restore else answer
        complaint = self._validator.complaint_of_whole(exchange.request, shown)
        if complaint is not None:
            self.note(exchange, complaint, "ended as an error")
            raise self.error(exchange, "the streamed answer does not satisfy its schema; discard it")


def _of_another(exchange: Exchange) -> str:
    return f"the answer of model {exchange.served.name!r} was no good: it breaks the schema or the tools of the request"
