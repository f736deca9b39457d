"""Client of the servers of one model: server choice, retries, and the error where none answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.gateway.telemetry.tries import Try
from sluicegate.gateway.upstream.events import TimeUp
from sluicegate.gateway.upstream.http1.address import lines_of
from sluicegate.gateway.upstream.http1.connecting import tls_terms
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.choice import PrefixIndex, beginnings, choose
from sluicegate.gateway.upstream.transport.reply import Reply
from sluicegate.gateway.upstream.transport.server import PROBES_TO_LEAVE, TryCounter, TryFailed, UpstreamServer
from sluicegate.gateway.upstream.transport.watch import ServerWatch
from sluicegate.plugins import (
    ConfigurationError,
    Overloaded,
    SluicegateError,
    UpstreamFailed,
    UpstreamUnavailable,
    exact_json,
)

log = logging.getLogger("sluicegate.upstream")
HEADERS = lines_of(
    {
        "user-agent": "sluicegate",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
    }
)
SAID_EVERY_S = 60.0
LONGEST_WAIT_S = 2.0
"""A server that asks to be left alone for longer is told about at once, so that somebody else can be asked."""


class Client:
    """Used on the event loop that `start` ran on."""

    def __init__(self, name: str, settings: UpstreamModelSettings, *, shows_messages: bool = False) -> None:
        """Make a client of all servers of a model. `shows_messages`: log what servers say when they refuse, which may
        quote a prompt."""
        self._name = name
        self._settings = settings
        self._headers = HEADERS
        """Lines of a head."""
        count = len(settings.addresses)
        self.servers = [UpstreamServer(name, at, settings, shows_messages=shows_messages) for at in range(count)]
        self._watch = ServerWatch(name, settings, self.servers if count > 1 else ())
        self._known = PrefixIndex() if settings.choice == "prefix" and count > 1 else None
        self.broken = 0
        """Answers that were no good, and were not asked for again."""
        self.cut = 0
        """Answers that went on past `max_tokens`."""
        self.disbelieved = 0
        """Answers whose `usage` could not be true."""
        self._said_again_s = 0.0
        self.tries = 0
        self.by_prefix = 0
        """Tries at a server that had read the beginning of the prompt before."""

    def disbelieve(self, request_id: str) -> None:
        """Count an answer with implausible usage. A server that reports it does so with every answer, so it is logged
        at most once a minute."""
        self.disbelieved += 1
        now_s = time.monotonic()
        if now_s >= self._said_again_s:
            self._said_again_s = now_s + SAID_EVERY_S
            log.warning(
                "request %s: the usage that a server of %r claims cannot be true; %d so far, said once a minute",
                request_id,
                self._name,
                self.disbelieved,
            )

    @property
    def running(self) -> int:
        return sum(server.running for server in self.servers)

    @property
    def failures(self) -> int:
        return sum(server.failures for server in self.servers)

    @property
    def left_alone(self) -> Sequence[UpstreamServer]:
        """Return the servers that are not called now."""
        usable = self._usable()
        return [server for server in self.servers if server not in usable]

    @property
    def wait_s(self) -> float:
        """Return the seconds until a server may be asked; 0 = now."""
        return 0.0 if self._usable() else min(server.breaker.wait_s for server in self.servers)

    @property
    def certificates(self) -> Mapping[int, float]:
        """Return when the certificates that servers showed end, in Unix seconds, by the servers' numbers."""
        shown = {server.number: server.certificate_ends_s for server in self.servers}
        return {number: ends_s for number, ends_s in shown.items() if ends_s is not None}

    async def start(self) -> None:
        """Open the connections. Raises `ConfigurationError` where the key is missing."""
        self.renew_key()
        tls = tls_terms() if any(server.is_tls for server in self.servers) else None
        for server in self.servers:
            server.start(tls)
        self._watch.start(lambda: self._headers)

    def renew_key(self) -> None:
        """Read the API key again, to be used from the next request on. Raises `ConfigurationError`; the old key stays
        then."""
        key = self._settings.api_key()
        if key is not None:
            try:
                self._headers = HEADERS + lines_of({"authorization": f"Bearer {key}"})
            except ValueError as error:
                raise ConfigurationError(f"the API key of model {self._name!r} cannot be sent: {error}") from None

    async def close(self) -> None:
        await self._watch.close()
        for server in self.servers:
            server.close()

    async def ask(
        self, body: Mapping[str, Any], tries: TryCounter, traceparent: str = "", until: float | None = None
    ) -> Reply:
        """Return the head of an answer, after retries where they may help; `tries` is always up to date. Raises
        `RequestError` for the caller's faults, `Overloaded` where the servers are busy or their breakers open, `TimeUp`
        past `until` (in the loop's time), else `UpstreamFailed`."""
        data = exact_json.write(body)
        limit_s = self._settings.first_s if body.get("stream") else self._settings.whole_s
        digests = beginnings(body.get("messages", ())) if self._known is not None else []
        failed: dict[int, TryFailed] = {}
        for left in range(self._settings.retries, -1, -1):
            server, chosen_by = self._next(tries, digests, failed)
            try:
                return await self._once(server, chosen_by, data, digests, tries, traceparent, limit_s, until)
            except TryFailed as again:
                failed[server.number] = again
                tries.avoid.add(server.number)
                wait_s = 0.0 if self._untried(tries) else again.wait_s
                if left == 0 or wait_s > LONGEST_WAIT_S:
                    raise self._told(failed) from None
                await _pause(wait_s, until)
        raise AssertionError("the last try returns or raises")

    async def _once(
        self,
        server: UpstreamServer,
        chosen_by: str,
        data: bytes,
        digests: Sequence[bytes],
        tries: TryCounter,
        traceparent: str,
        limit_s: float,
        until: float | None,
    ) -> Reply:
        attempt = Try(server.label, len(tries.made), chosen_by)
        tries.made.append(attempt)
        self.tries += 1
        headers = self._headers
        if traceparent:
            headers += b"traceparent: %b\r\n" % attempt.traceparent(traceparent).encode()
        was_open = server.breaker.is_open
        try:
            reply = await server.ask(data, tries, headers, limit_s, until)
        except BaseException:
            if self._known is not None and server.breaker.is_open and not was_open:
                self._known.forget(server.number)
            raise
        if self._known is not None:
            self._known.read(digests, server.number)
            self.by_prefix += chosen_by == "prefix"
        return reply

    # --- which one ---------------------------------------------------------------------------------------------

    def _next(
        self, tries: TryCounter, digests: Sequence[bytes], failed: Mapping[int, TryFailed]
    ) -> tuple[UpstreamServer, str]:
        """Return the server to ask now, and what decided. Raises what `_told` says where none may be asked."""
        usable = self._usable()
        fresh = [server for server in usable if server.number not in tries.avoid]
        on_trial = [server for server in fresh if server.breaker.is_open and server.breaker.wait_s == 0]
        while on_trial:
            server = on_trial.pop()
            if server.breaker.admits(self._settings):
                return server, ""
        if not usable:
            raise self._told(failed)
        if len(self.servers) == 1:
            return self.servers[0], ""
        return choose(fresh or usable, digests, self._known)

    def _usable(self) -> list[UpstreamServer]:
        """Return the servers that may be asked now. Those that failed again and again may not, except where more than
        `eject_share` of all would be left alone though they answer."""
        out = [server for server in self.servers if server.breaker.wait_s > 0]
        if len(self.servers) > 1:
            unkind = sorted((server for server in out if server.answers), key=lambda server: -server.breaker.wait_s)
            most = int(self._settings.eject_share * len(self.servers)) - sum(not server.answers for server in out)
            for server in unkind[max(0, most) :]:
                out.remove(server)
        found = [server for server in self.servers if server not in out]
        return [server for server in found if server.missed < PROBES_TO_LEAVE] or found

    def _untried(self, tries: TryCounter) -> bool:
        return any(server.number not in tries.avoid for server in self._usable())

    def _told(self, failed: Mapping[int, TryFailed]) -> SluicegateError:
        """Return the error after the failed attempts. Servers are numbered as configured: their addresses are the
        operator's secret."""
        name, count = self._name, len(self.servers)
        if count == 1:
            if failed:
                return failed[0].error
            return UpstreamUnavailable(
                f"the server behind model {name!r} failed several times in a row and is left alone",
                retry_after_s=self.servers[0].breaker.wait_s,
            )
        tried = [f"server {at + 1} {one.why}" for at, one in sorted(failed.items())]
        alone = [
            f"server {server.number + 1} {'is left alone' if server.breaker.wait_s else 'does not answer its probes'}"
            for server in self.left_alone
            if server.number not in failed
        ]
        message = f"none of the {count} servers behind model {name!r} answered: {'; '.join([*tried, *alone])}"
        log.warning(
            "model %s: %s", name, ", ".join(f"{self.servers[at].label} {one.why}" for at, one in failed.items())
        )
        busy = [one for one in failed.values() if isinstance(one.error, Overloaded)]
        if busy or not failed:
            waits = [one.wait_s for one in busy] or [server.breaker.wait_s for server in self.servers]
            kind = Overloaded if busy else UpstreamUnavailable
            return kind(message, retry_after_s=max(0.1, min(waits)))
        return UpstreamFailed(message)


async def _pause(wait_s: float, until: float | None) -> None:
    """Wait so long. Raises `TimeUp` at `until`, in the loop's time, where the pause would last longer."""
    left_s = wait_s if until is None else until - asyncio.get_running_loop().time()
    await asyncio.sleep(max(0.0, min(wait_s, left_s)))
    if left_s < wait_s:
        raise TimeUp
