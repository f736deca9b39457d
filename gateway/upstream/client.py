"""One other server: connections, tries, time limits, and what its refusals mean here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import aiohttp
import orjson

from gateway.upstream.addresses import PublicOnly
from gateway.upstream.breaker import Breaker
from gateway.upstream.events import Broken
from gateway.upstream.settings import UpstreamModelSettings
from plugins import ContextLengthExceeded, NotFound, Overloaded, RequestError, SluicegateError, UpstreamFailed

log = logging.getLogger("sluicegate.upstream")
BACKOFF_S = 0.1
LONGEST_WAIT_S = 2.0
"""A server that asks to be left alone for longer is told about at once, so that somebody else can be asked."""
MAX_ERROR_BYTES = 65_536
FINISH_S = 0.05
AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))


class Reply(Protocol):
    """A head that has come, and a body to be read or dropped."""

    @property
    def is_stream(self) -> bool: ...

    def pieces(self) -> AsyncIterator[bytes]: ...

    async def finish(self) -> None:
        """All that matters was read; give the connection back if the server ends at once."""

    def drop(self) -> None: ...


class Client:
    """Used on the event loop that `start` ran on."""

    def __init__(self, name: str, settings: UpstreamModelSettings) -> None:
        self._name = name
        self._settings = settings
        self._url = settings.url.rstrip("/") + "/chat/completions"
        self._headers = {"content-type": "application/json", "accept": "text/event-stream"}
        self._session: aiohttp.ClientSession | None = None
        self.breaker = Breaker(settings.failures_to_open, settings.pause_s)
        self.running = 0
        self.failures = 0

    async def start(self) -> None:
        """Raises `ConfigurationError` where the key is missing."""
        key = self._settings.api_key()
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        resolver = None if self._settings.allow_private else PublicOnly()
        connector = aiohttp.TCPConnector(limit=self._settings.max_connections, resolver=resolver)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(None, sock_connect=self._settings.connect_s),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, body: Mapping[str, Any], traceparent: str = "") -> Reply:
        """The head of an answer that is a stream. Tries again where that may help. Raises `RequestError` for what the
        caller can mend, `Overloaded` where the server is busy or left alone, else `UpstreamFailed`."""
        data = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
        headers = {**self._headers, "traceparent": traceparent} if traceparent else self._headers
        limit_s = self._settings.first_s if body.get("stream") else self._settings.whole_s
        for left in range(self._settings.retries, -1, -1):
            self._check_breaker()
            try:
                return await self._once(data, headers, limit_s)
            except _Again as again:
                if left == 0 or again.wait_s > LONGEST_WAIT_S:
                    raise again.error from None
                await asyncio.sleep(again.wait_s)
        raise AssertionError("the last try returns or raises")

    def _check_breaker(self) -> None:
        wait_s = self.breaker.wait_s()
        if wait_s > 0:
            raise Overloaded(
                f"the server behind model {self._name!r} failed several times in a row and is left alone",
                retry_after_s=wait_s,
            )
        self.breaker.passing()

    async def _once(self, data: bytes, headers: Mapping[str, str], limit_s: float) -> Reply:
        assert self._session is not None, "start() comes first"
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._session.post(self._url, data=data, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._failed()
            log.warning("model %s: the server cannot be asked: %s", self._name, type(error).__name__)
            raise _Again(self._unreachable(error), BACKOFF_S) from error
        if answer.status == 200:
            self.breaker.succeeded()
            return _Live(answer, self, self._settings.idle_s)
        try:
            raise await self._refused(answer)
        finally:
            answer.release()

    def _failed(self) -> None:
        self.failures += 1
        self.breaker.failed()

    def _unreachable(self, error: Exception) -> SluicegateError:
        late = isinstance(error, TimeoutError)
        what = "did not answer in time" if late else "cannot be reached"
        return UpstreamFailed(f"the server behind model {self._name!r} {what}")

    async def _refused(self, answer: aiohttp.ClientResponse) -> Exception:
        said = await _said(answer)
        status, name = answer.status, self._name
        log.warning("model %s: the server answered %d", name, status)
        if status in AGAIN:
            wait_s = _retry_after(answer.headers.get("retry-after"))
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
            kind = ContextLengthExceeded if said.get("code") == "context_length_exceeded" else RequestError
            return kind(f"the server behind model {name!r} refused: {said.get('message') or status}"[:500])
        if status == 404:
            return NotFound(f"the server behind model {name!r} does not know it", code="model_not_found")
        return UpstreamFailed(f"the server behind model {name!r} answered {status}; see [stages.generate.upstream]")


class _Again(Exception):
    """What would be raised, and when another try may help."""

    def __init__(self, error: SluicegateError, wait_s: float) -> None:
        super().__init__()
        self.error = error
        self.wait_s = wait_s


class _Live:
    def __init__(self, answer: aiohttp.ClientResponse, client: Client, idle_s: float) -> None:
        self._answer = answer
        self._idle_s = idle_s
        self._client = client
        self._open = True
        client.running += 1

    @property
    def is_stream(self) -> bool:
        return self._answer.content_type.startswith("text/event-stream")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises `Broken` where the connection breaks or falls silent."""
        try:
            while True:
                async with asyncio.timeout(self._idle_s):
                    piece = await self._answer.content.readany()
                if not piece:
                    return
                yield piece
        except TimeoutError as error:
            self._client._failed()
            raise Broken("the server fell silent in the middle of its stream") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Broken("the connection broke in the middle of the stream") from error

    async def finish(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(FINISH_S):
                await self._answer.content.read(MAX_ERROR_BYTES)

    def drop(self) -> None:
        """Close the connection, unless the answer was read to its end; the server sees that nobody listens."""
        if self._open:
            self._open = False
            self._client.running -= 1
            self._answer.close()


async def _said(answer: aiohttp.ClientResponse) -> Mapping[str, Any]:
    """The `error` object of a refusal, as far as there is one."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(5):
            found = orjson.loads(await answer.content.read(MAX_ERROR_BYTES))
        if isinstance(found.get("error"), Mapping):
            return found["error"]  # type: ignore[no-any-return]
    return {}


def _retry_after(header: str | None) -> float | None:
    """Seconds; a date there is not read."""
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None
