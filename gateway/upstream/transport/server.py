"""One server of a model: whether it may be asked, how busy it is, and one try at an answer."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from sluicegate.gateway.telemetry.tries import Try
from sluicegate.gateway.upstream.events import TimeUp
from sluicegate.gateway.upstream.http1.address import ServerAddress
from sluicegate.gateway.upstream.http1.connecting import Connector
from sluicegate.gateway.upstream.http1.failures import HttpFailure
from sluicegate.gateway.upstream.http1.pool import Pool
from sluicegate.gateway.upstream.http1.response import Response
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.load_report import LoadReport
from sluicegate.gateway.upstream.transport.refusals import as_error, refusal, shown
from sluicegate.gateway.upstream.transport.reply import LiveReply
from sluicegate.plugins import NotFound, Overloaded, ServerHealth, SluicegateError, UpstreamFailed
from sluicegate.plugins.circuit_breaker import CircuitBreaker
from sluicegate.plugins.concurrency.retry_after import retry_after

log = logging.getLogger("sluicegate.upstream")
BACKOFF_S = 0.1
MAX_PAUSE_S = 60.0
AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
NOT_BEGUN = frozenset((408, 425, 429, 503))
"""Of those, the ones that say that nothing was done; of a 500 nobody knows."""
OF_THE_REQUEST = frozenset((400, 413, 422))
"""Statuses that any server alike would answer."""
FULL = 0.95
"""Share of a KV cache from which on a server counts as full: what comes next preempts somebody."""
PROBES_TO_LEAVE = 2
"""Probes in a row without an answer after which a server is not asked."""


@dataclass(slots=True)
class TryCounter:
    """Counts attempts for one answer, however asking ends."""

    read: int = 0
    """How often the whole prompt was written to a server, and it did not refuse to begin."""
    made: list[Try] = field(default_factory=list)
    avoid: set[int] = field(default_factory=set)
    """Servers that failed at this answer already; others are asked first."""

    def next(self, failed: int | None) -> TryCounter:
        """Return the count for another answer to the same request, after server `failed` gave a bad one."""
        return TryCounter(0, self.made, self.avoid | (set() if failed is None else {failed}))


class TryFailed(Exception):
    """A failed attempt: the error to raise if it was the last, why, and when the server may be asked again."""

    def __init__(self, error: SluicegateError, why: str, wait_s: float) -> None:
        super().__init__()
        self.error = error
        self.why = why
        self.wait_s = wait_s


class UpstreamServer:
    """Used on one event loop."""

    def __init__(self, name: str, number: int, settings: UpstreamModelSettings, *, shows_messages: bool) -> None:
        """Note where the server is. `name` is that of the model. `shows_messages`: log what the server says when it
        refuses."""
        self._name = name
        self._settings = settings
        self._shows_messages = shows_messages
        self._alone = len(settings.addresses) == 1
        self.number = number
        self.address = settings.addresses[number]
        self._at = ServerAddress.of(self.address)
        self._root = ServerAddress.of(self.address.removesuffix("/v1"))
        self._post = self._at.head("POST", "/chat/completions")
        self._connector: Connector | None = None
        self._pool: Pool | None = None
        self.label = f"{self._at.host}:{self._at.port}"
        self.breaker = CircuitBreaker(MAX_PAUSE_S)
        self.running = 0
        self.failures = 0
        self.answers = True
        """False: the newest failure was that nothing answered at all."""
        self.missed = 0
        """Probes in a row without an answer."""
        self.report = LoadReport()
        self.running_then = 0
        """Our own requests when the report was made."""

    def start(self, tls: ssl.SSLContext | None) -> None:
        """Get ready to connect. `tls`: the terms of addresses of https."""
        settings = self._settings
        only_public = not settings.allow_private
        self._connector = Connector(self._at, connect_s=settings.connect_s, only_public=only_public, tls=tls)
        self._pool = Pool(self._connector, settings.max_connections)

    def close(self) -> None:
        """Close the connections; answers that are not whole fail."""
        if self._pool is not None:
            self._pool.close()

    @property
    def is_tls(self) -> bool:
        return self._at.is_tls

    @property
    def certificate_ends_s(self) -> float | None:
        """Return when the certificate that the server showed last ends, in Unix seconds; None where it showed none."""
        return self._connector.certificate_ends_s if self._connector is not None else None

    def health(self) -> ServerHealth:
        breaker = self.breaker
        gone = breaker.is_open or self.missed >= PROBES_TO_LEAVE
        state: Literal["well", "failing", "left_alone"] = "failing" if breaker.failures_in_a_row else "well"
        return ServerHealth(
            self.label,
            "left_alone" if gone else state,
            self.running,
            breaker.failures_in_a_row,
            self.failures,
            breaker.wait_s,
        )

    @property
    def load(self) -> float:
        """Return how many requests run on the server: ours, and the others that it reported."""
        others = 0.0 if self.report.requests is None else max(0.0, self.report.requests - self.running_then)
        return self.running + others

    @property
    def is_full(self) -> bool:
        return self.report.usage is not None and self.report.usage >= FULL

    def reported(self, report: LoadReport) -> None:
        self.report, self.running_then = report, self.running

    def probed(self, *, answers: bool) -> None:
        """Note a probe. One that is answered ends the pause of a server that did not answer at all."""
        self.missed = 0 if answers else self.missed + 1
        if answers and not self.answers:
            self.answers = True
            self.breaker.succeeded()

    # --- what became of answers --------------------------------------------------------------------------------

    def answered(self) -> None:
        self.answers = True
        self.breaker.succeeded()

    def broke_off(self) -> None:
        """Record that an answer was cut or malformed. Where no other server exists, this one is still called."""
        if not self._alone:
            self._failed()

    def fell_silent(self) -> None:
        self._failed()

    def _failed(self) -> None:
        self.failures += 1
        self.breaker.failed(self._settings)

    # --- one try -----------------------------------------------------------------------------------------------

    async def ask(
        self,
        data: bytes,
        tries: TryCounter,
        headers: bytes,
        limit_s: float,
        until: float | None = None,
    ) -> LiveReply:
        """Return the head of an answer. `headers`: lines of a head. Raises `TryFailed` where another try may help,
        `TimeUp` past `until` (in the loop's time), else what a caller is told."""
        began, attempt = asyncio.get_running_loop().time(), tries.made[-1]
        reading = _PromptSent(tries)
        request = b"%b%bcontent-length: %d\r\n\r\n%b" % (self._post, headers, len(data), data)
        self.running += 1
        try:
            answer = await self._in_time(request, reading, attempt, began + limit_s, until)
            attempt.status = answer.status
            if answer.status != 200:
                raise await self._turned_down(answer, attempt, reading, until)
        except BaseException:
            self.running -= 1
            raise
        if self._alone:
            self.answered()
        return LiveReply(answer, self, self._settings, began, attempt)

    async def _in_time(
        self, request: bytes, reading: _PromptSent, attempt: Try, limit: float, until: float | None
    ) -> Response:
        """Await the head of an answer until `limit` or `until`, whichever comes first: one time limit is enough."""
        assert self._pool is not None, "start() comes first"
        given = math.inf if until is None else until
        try:
            return await self._pool.ask(request, reading.begun, min(limit, given))
        except OSError as error:
            if given <= limit and isinstance(error, TimeoutError) and not isinstance(error, HttpFailure):
                raise TimeUp from None
            raise self._unreachable(error, attempt) from error

    @asynccontextmanager
    async def getting(self, path: str, headers: bytes, until: float) -> AsyncIterator[Response]:
        """Give the head of an answer to a GET of `path`, which stands behind the address without `/v1`. Raises
        `OSError`."""
        assert self._pool is not None, "start() comes first"
        answer = await self._pool.ask(self._root.head("GET", path) + headers + b"\r\n", _nothing, until)
        try:
            yield answer
        finally:
            answer.close()

    async def _turned_down(
        self, answer: Response, attempt: Try, reading: _PromptSent, until: float | None
    ) -> Exception:
        """Return the error for a response that is no answer, and release its connection."""
        try:
            if answer.status < 500 or answer.status in NOT_BEGUN:
                reading.refused()
            return await self._refused_by(answer, attempt, until)
        finally:
            attempt.end(f"status_{answer.status}")
            answer.close()

    async def _refused_by(self, answer: Response, attempt: Try, until: float | None) -> Exception:
        try:
            async with asyncio.timeout_at(until) as limit:
                return await self._refused(answer, attempt)
        except TimeoutError:
            if limit.expired():
                return TimeUp()
            raise

    def _unreachable(self, error: Exception, attempt: Try) -> TryFailed:
        late = isinstance(error, TimeoutError) and not isinstance(error, HttpFailure)
        self.answers = late
        self._failed()
        log.warning("model %s: server %s cannot be asked: %s", self._name, self.label, error)
        attempt.end("no_answer_in_time" if isinstance(error, TimeoutError) else "unreachable")
        what = "did not answer in time" if isinstance(error, TimeoutError) else "cannot be reached"
        told = f"the server behind model {self._name!r} {what}"
        return TryFailed(UpstreamFailed(told, cause=str(error)), what, BACKOFF_S)

    async def _refused(self, answer: Response, attempt: Try) -> Exception:
        said = await refusal(answer)
        status, name = answer.status, self._name
        why = shown(said.message) if self._shows_messages else said.code or "no code that is known here"
        attempt.said = why
        log.warning("model %s: server %s answered %d: %s", name, self.label, status, why)
        self.answers = True
        wait_s = retry_after(answer.header(b"retry-after"), answer.header(b"date"))
        if status in (429, 503):
            self.breaker.succeeded()
            error: SluicegateError = Overloaded(
                f"the server behind model {name!r} is busy", retry_after_s=wait_s or 1.0
            )
            return TryFailed(error, "is busy", wait_s if wait_s is not None else BACKOFF_S)
        if status in AGAIN:
            self._failed()
            error = UpstreamFailed(f"the server behind model {name!r} failed with status {status}")
            return TryFailed(error, f"failed with status {status}", wait_s if wait_s is not None else BACKOFF_S)
        return self._turned_away(as_error(name, status, said) if status in OF_THE_REQUEST else None, status)

    def _turned_away(self, error: SluicegateError | None, status: int) -> Exception:
        """Return the error for a status that a retry at this server would not change. A fault of the server, not of the
        request, allows another server."""
        if error is None and not self._alone:
            self._failed()
        else:
            self.breaker.succeeded()
        if error is not None:
            return error
        name = self._name
        found: SluicegateError = UpstreamFailed(
            f"the server behind model {name!r} answered {status}; see [stages.generate.upstream]"
        )
        if status == 404:
            found = NotFound(f"the server behind model {name!r} does not know it", code="model_not_found")
        return found if self._alone else TryFailed(found, f"answered {status}", BACKOFF_S)


def _nothing() -> None:
    """Do nothing: the sending of a GET is not counted."""


class _PromptSent:
    """Whether the whole prompt of one try was written to a server that did not refuse to begin."""

    __slots__ = ("_tries", "_written")

    def __init__(self, tries: TryCounter) -> None:
        self._tries = tries
        self._written = False

    def begun(self) -> None:
        self._tries.read += not self._written
        self._written = True

    def refused(self) -> None:
        """Uncount the written prompt: the server refused to begin."""
        self._tries.read -= self._written
