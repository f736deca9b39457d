"""Client of one upstream server: connections, retries, time limits and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import orjson

from sluicegate.gateway.upstream.events import Broken, Malformed, TimeUp
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.addresses import PublicOnly
from sluicegate.gateway.upstream.transport.interim import bounded
from sluicegate.gateway.upstream.transport.refusals import MOST_BYTES, as_error, refusal, retry_after, shown
from sluicegate.plugins import NotFound, Overloaded, SluicegateError, UpstreamFailed
from sluicegate.plugins.circuit_breaker import CircuitBreaker

log = logging.getLogger("sluicegate.upstream")
BACKOFF_S = 0.1
MAX_PAUSE_S = 60.0
LONGEST_WAIT_S = 2.0
"""A server that asks to be left alone for longer is told about at once, so that somebody else can be asked."""
FINISH_S = 0.05
AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
NOT_BEGUN = frozenset((408, 425, 429, 503))
"""Of those, the ones that say that nothing was done; of a 500 nobody knows."""
AT_ONCE = 16 * 1024
"""Bytes that are taken from a connection in one go, or a sixteenth as many chunks of its encoding: however fast a
server sends, others have their turn after so many."""
A_PIECE = 256
"""What one piece counts for besides its bytes."""
PLAIN = ("", "identity")
"""What `content-encoding` may be: nothing packed was asked for, and a few packed bytes may be very many."""


@dataclass(slots=True)
class Tries:
    """Counts attempts for one answer, however asking ends."""

    read: int = 0
    """How often the whole prompt was written to the server, and it did not refuse to begin."""


class Reply(Protocol):
    """A response whose head has arrived, with a body to be read or dropped."""

    @property
    def is_stream(self) -> bool: ...

    def pieces(self, until: float | None, most_unused: int) -> AsyncIterator[bytes]:
        """`until`, in the loop's time: raises `TimeUp`. `most_unused`: bytes of a stream between two things that belong
        to the answer."""

    def progressed(self) -> None:
        """Restart the silence timer: something that belongs to the answer arrived."""

    async def finish(self) -> None:
        """Return the connection to the pool if the server ends the response at once; all that matters was read."""

    def drop(self) -> None: ...


class Client:
    """Used on the event loop that `start` ran on."""

    def __init__(self, name: str, settings: UpstreamModelSettings, *, shows_messages: bool = False) -> None:
        """`shows_messages`: log what the server says when it refuses, which may quote a prompt."""
        self._name = name
        self._shows_messages = shows_messages
        self._settings = settings
        self._url = settings.url.rstrip("/") + "/chat/completions"
        self._headers = {"content-type": "application/json", "accept": "text/event-stream"}
        self._headers["accept-encoding"] = "identity"
        self._session: aiohttp.ClientSession | None = None
        self.breaker = CircuitBreaker(MAX_PAUSE_S)
        self.running = 0
        self.failures = 0
        self.broken = 0
        """Answers that were no good, and were not asked for again."""
        self.cut = 0
        """Answers that went on past `max_tokens`."""
        self.disbelieved = 0
        """Answers whose `usage` could not be true."""

    async def start(self) -> None:
        """Raises `ConfigurationError` where the key is missing."""
        self.renew_key()
        resolver = None if self._settings.allow_private else PublicOnly()
        connector = aiohttp.TCPConnector(limit=self._settings.max_connections, resolver=resolver)
        self._session = aiohttp.ClientSession(
            connector=bounded(connector),
            timeout=aiohttp.ClientTimeout(None, sock_connect=self._settings.connect_s),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=AT_ONCE,
        )

    def renew_key(self) -> None:
        """From the next request on. Raises `ConfigurationError`; the old key stays then."""
        key = self._settings.api_key()
        if key is not None:
            self._headers = {**self._headers, "authorization": f"Bearer {key}"}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, body: Mapping[str, Any], tries: Tries, traceparent: str = "") -> Reply:
        """Return the head of an answer, after retries where they may help; `tries` is always up to date. Raises
        `RequestError` for the caller's faults, `Overloaded` where the server is busy or its breaker open, else
        `UpstreamFailed`."""
        data = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
        headers = {**self._headers, "traceparent": traceparent} if traceparent else self._headers
        limit_s = self._settings.first_s if body.get("stream") else self._settings.whole_s
        for left in range(self._settings.retries, -1, -1):
            self._check_breaker()
            try:
                return await self._once(_Prompt(data, tries), headers, limit_s)
            except _Again as again:
                if left == 0 or again.wait_s > LONGEST_WAIT_S:
                    raise again.error from None
                await asyncio.sleep(again.wait_s)
        raise AssertionError("the last try returns or raises")

    def _check_breaker(self) -> None:
        if not self.breaker.admits(self._settings):
            raise Overloaded(
                f"the server behind model {self._name!r} failed several times in a row and is left alone",
                retry_after_s=self.breaker.wait_s,
            )

    async def _once(self, prompt: _Prompt, headers: Mapping[str, str], limit_s: float) -> Reply:
        assert self._session is not None, "start() comes first"
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._session.post(self._url, data=prompt, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self._failed()
            log.warning("model %s: the server cannot be asked: %s", self._name, type(error).__name__)
            raise _Again(self._unreachable(error), BACKOFF_S) from error
        if answer.status == 200:
            self.breaker.succeeded()
            return _Live(answer, self, self._settings, began)
        try:
            if answer.status < 500 or answer.status in NOT_BEGUN:
                prompt.refused()
            raise await self._refused(answer)
        finally:
            answer.release()

    def _failed(self) -> None:
        self.failures += 1
        self.breaker.failed(self._settings)

    def _unreachable(self, error: Exception) -> SluicegateError:
        late = isinstance(error, TimeoutError)
        what = "did not answer in time" if late else "cannot be reached"
        return UpstreamFailed(f"the server behind model {self._name!r} {what}")

    async def _refused(self, answer: aiohttp.ClientResponse) -> Exception:
        said = await refusal(answer)
        status, name = answer.status, self._name
        why = shown(said.message) if self._shows_messages else said.code or "no code that is known here"
        log.warning("model %s: the server answered %d: %s", name, status, why)
        if status in AGAIN:
            wait_s = retry_after(answer.headers.get("retry-after"))
            busy = status in (429, 503)
            if not busy:
                self._failed()
            else:
                self.breaker.succeeded()
            error: SluicegateError = (
                Overloaded(f"the server behind model {name!r} is busy", retry_after_s=wait_s or 1.0)
                if busy
                else UpstreamFailed(f"the server behind model {name!r} failed with status {status}")
            )
            return _Again(error, wait_s if wait_s is not None else BACKOFF_S)
        self.breaker.succeeded()
        if status in (400, 413, 422):
            return as_error(name, status, said)
        if status == 404:
            return NotFound(f"the server behind model {name!r} does not know it", code="model_not_found")
        return UpstreamFailed(f"the server behind model {name!r} answered {status}; see [stages.generate.upstream]")


class _Again(Exception):
    """A failed attempt: the error to raise if it was the last, and when to retry."""

    def __init__(self, error: SluicegateError, wait_s: float) -> None:
        super().__init__()
        self.error = error
        self.wait_s = wait_s


class _Prompt(aiohttp.BytesPayload):
    """A request body that notes when it was written whole."""

    def __init__(self, data: bytes, tries: Tries) -> None:
        super().__init__(data)
        self._tries = tries
        self._written = False

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        await super().write_with_length(writer, content_length)
        self._mark()

    async def write(self, writer: Any) -> None:
        await super().write(writer)
        self._mark()

    def refused(self) -> None:
        """Take the attempt back: the server did not begin."""
        self._tries.read -= self._written

    def _mark(self) -> None:
        self._tries.read += not self._written
        self._written = True


class _Live:
    def __init__(
        self, answer: aiohttp.ClientResponse, client: Client, settings: UpstreamModelSettings, began: float
    ) -> None:
        """`began`: when the request was sent, in the event loop's time."""
        self._answer = answer
        self._client = client
        self._idle_s = settings.idle_s
        self._open = True
        self._alive = False
        """Bytes came since something last belonged to the answer; `_unused`: how many."""
        self._unused = 0
        self.is_stream = answer.content_type.startswith("text/event-stream")
        self._whole_until = began + settings.whole_s
        now = asyncio.get_running_loop().time()
        self._patience_s = max(settings.idle_s, began + settings.first_s - now)
        """How long the server may still be waited for before something comes that belongs to the answer."""
        client.running += 1

    def progressed(self) -> None:
        self._patience_s, self._alive, self._unused = self._idle_s, False, 0

    async def pieces(self, until: float | None, most_unused: int) -> AsyncIterator[bytes]:
        """Raises `Broken` where the connection breaks, falls silent or takes too long, `TimeUp` past `until`. Only time
        in which the server is waited for counts as silence."""
        if self._answer.headers.get("content-encoding", "").lower() not in PLAIN:
            raise Malformed("the server packed its answer, which was not asked for")
        clock, stream = asyncio.get_running_loop().time, self._answer.content
        ends = self._whole_until if until is None else min(until, self._whole_until)
        taken = 0
        try:
            while True:
                now = clock()
                async with asyncio.timeout_at(min(now + self._patience_s, ends)):
                    piece = await stream.read(AT_ONCE)
                if not piece:
                    return
                read = clock()
                if read >= ends:
                    raise TimeoutError
                self._patience_s, self._alive = self._patience_s - (read - now), True
                self._unused += len(piece)
                if not self.is_stream:
                    self.progressed()
                elif self._unused > most_unused:
                    raise Malformed("the server sent too much that belongs to no answer")
                yield piece
                taken += len(piece) + A_PIECE
                if taken > AT_ONCE:  # what lies ready is read without waiting
                    taken = 0
                    await asyncio.sleep(0)
        except TimeoutError as error:
            raise self._silent(clock(), until) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Broken("the connection broke in the middle of the stream") from error

    def _silent(self, now: float, until: float | None) -> Exception:
        if until is not None and now >= until:
            return TimeUp()
        if now >= self._whole_until:
            return Malformed("the server took longer for its answer than it may")
        if not self._alive:  # one that sends comments is not gone: others are to go on asking it
            self._client._failed()
        return Broken("the server fell silent in the middle of its answer")

    async def finish(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(FINISH_S):
                await self._answer.content.read(MOST_BYTES)

    def drop(self) -> None:
        """Close the connection, unless the answer was read to its end; the server sees that nobody listens."""
        if self._open:
            self._open = False
            self._client.running -= 1
            self._answer.close()
