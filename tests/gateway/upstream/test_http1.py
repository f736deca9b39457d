"""The client of HTTP/1.1: what a server may send, in any pieces, and what becomes of the connection after it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from sluicegate.gateway.upstream.http1 import pool as pools
from sluicegate.gateway.upstream.http1.address import ServerAddress, lines_of
from sluicegate.gateway.upstream.http1.alarm import Alarm
from sluicegate.gateway.upstream.http1.connecting import Connector
from sluicegate.gateway.upstream.http1.connection import LONGEST_HEADER, MOST_BARREN, MOST_HEADERS, MOST_INTERIM
from sluicegate.gateway.upstream.http1.failures import (
    BadResponse,
    ConnectFailed,
    ConnectionClosed,
    ConnectTimedOut,
    HttpFailure,
)
from sluicegate.gateway.upstream.http1.pool import Pool
from sluicegate.gateway.upstream.http1.response import AT_ONCE, Response
from tests.waiting import soon

ASKED = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\n"
LONG_S = 60.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """Run on either loop: what serves is uvloop, and its transports tell other things."""
    with asyncio.Runner(loop_factory=request.param) as runner:

        async def awaited(work: Awaitable[Any]) -> Any:
            return await work

        yield lambda work: runner.run(awaited(work))


class Server:
    """`act` serves a connection; `connections`: how many came, `gone`: how many of them the client closed."""

    def __init__(self, act: Serve) -> None:
        self._act = act
        self.connections = self.open = self.most_open = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            await self._act(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def served(act: Serve, most: int = 100, **terms: Any) -> AsyncIterator[tuple[Pool, Server]]:
    server = Server(act)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=terms.pop("server_tls", None))
    server.port = listener.sockets[0].getsockname()[1]
    pool = pool_to(server.port, most, **terms)
    try:
        yield pool, server
    finally:
        pool.close()
        listener.close()
        await soon(lambda: server.open == 0)


def pool_to(port: int, most: int = 100, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Pool:
    address = ServerAddress.of(f"{'https' if tls else 'http'}://{host}:{port}/v1")
    return Pool(Connector(address, connect_s=LONG_S, only_public=False, tls=tls), most)


def says(*parts: bytes, then: str = "wait") -> Serve:
    """Answer each request with `parts`; `then` wait for the next one, `close`, or `reset` the connection."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if then == "reset":
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            if then != "wait":
                return

    return act


def later(seconds: float = LONG_S) -> float:
    return asyncio.get_running_loop().time() + seconds


def ignored() -> None: ...


async def ask(pool: Pool, seconds: float = LONG_S) -> Response:
    return await pool.ask(ASKED, ignored, later(seconds))


async def body_of(response: Response, seconds: float = LONG_S) -> bytes:
    return b"".join([piece async for piece in pieces_of(response, seconds)])


async def pieces_of(response: Response, seconds: float = LONG_S) -> AsyncIterator[bytes]:
    while piece := await response.read(later(seconds)):
        yield piece


def whole(body: bytes, *headers: bytes) -> bytes:
    return OK + b"content-length: %d\r\n" % len(body) + b"".join(headers) + b"\r\n" + body


def chunked(*bodies: bytes, tail: bytes = b"0\r\n\r\n") -> bytes:
    parts = b"".join(b"%x\r\n%b\r\n" % (len(body), body) for body in bodies)
    return OK + b"transfer-encoding: chunked\r\n\r\n" + parts + tail


# --- bodies -----------------------------------------------------------------------------------------------------

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n"
BODIES: dict[str, tuple[bytes, bytes, bool]] = {
    "of a length": (whole(b"hello"), b"hello", True),
    "empty": (whole(b""), b"", True),
    "in chunks": (chunked(b"he", b"l", b"lo"), b"hello", True),
    "with trailers": (chunked(b"hello", tail=b"0\r\nstatus: 500\r\n\r\n"), b"hello", True),
    "with a chunk's extension": (OK + b"transfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", b"hello", True),
    "none at all": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "behind interim heads": (INTERIM + whole(b"a"), b"a", True),
    "of a server that closes": (whole(b"hello", b"connection: close\r\n"), b"hello", False),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello", False),
    "with an empty header": (whole(b"hello", b"x-empty:\r\n"), b"hello", True),
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_body_is_the_same_however_it_comes_and_its_connection_is_used_again(run: Any, kind: str, step: int) -> None:
    sent, body, again = BODIES[kind]
    parts = [sent[at : at + step] for at in range(0, len(sent), step)]

    async def main() -> None:
        async with served(says(*parts)) as (pool, server):
            for _ in range(3):
                response = await ask(pool)
                assert await body_of(response) == body
                assert response.status in (200, 204)
                assert response.header(b"link") == response.header(b"status") == ""
                assert response.at_end
            assert server.connections == (1 if again else 3)

    run(main())


def test_a_body_without_a_length_is_as_long_as_its_connection(run: Any) -> None:
    async def main() -> None:
        async with served(says(OK + b"\r\nhel", b"lo", then="close")) as (pool, server):
            for _ in range(2):
                assert await body_of(await ask(pool)) == b"hello"
            assert server.connections == 2

    run(main())


def test_headers_of_one_name_are_one(run: Any) -> None:
    async def main() -> None:
        async with served(says(whole(b"a", b"X-A: 1\r\n", b"x-a: 2\r\n"))) as (pool, _):
            assert (await ask(pool)).header(b"x-a") == "1, 2"

    run(main())


# --- answers that are none ---------------------------------------------------------------------------------------

CUT = {
    "before its head": (b"", b""),
    "in its head": (OK + b"content-le", b""),
    "in a body of a length": (OK + b"content-length: 10\r\n\r\nhello", b"hello"),
    "in a chunk": (OK + b"transfer-encoding: chunked\r\n\r\n20\r\nhello", b"hello"),
    "between chunks": (chunked(b"hello", tail=b""), b"hello"),
    "before the last line": (chunked(b"hello", tail=b"0\r\n"), b"hello"),
    "after an interim head": (b"HTTP/1.1 100 Continue\r\n\r\n", b""),
}


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("where", CUT)
def test_an_answer_that_is_cut_never_ends(run: Any, where: str, then: str) -> None:
    """What came before may be read; then it is a failure, and the next request gets a connection of its own."""
    sent, came = CUT[where]

    async def main() -> None:
        async with served(says(sent, then=then)) as (pool, server):
            read = b""

            async def reading() -> None:
                nonlocal read
                async for piece in pieces_of(await ask(pool)):
                    read += piece

            with pytest.raises(ConnectionClosed):
                await reading()
            assert came.startswith(read)
            if then == "close":
                assert read == came
            with pytest.raises(ConnectionClosed):
                await body_of(await ask(pool))
            assert server.connections == 2

    run(main())


def test_a_body_without_a_length_that_is_reset_never_ends(run: Any) -> None:
    async def main() -> None:
        async with served(says(OK + b"\r\nhello", then="wait")) as (pool, server):
            response = await ask(pool)
            assert await response.read(later()) == b"hello"
            response.close()
            with pytest.raises(ConnectionClosed):
                await response.read(later())
            await soon(lambda: server.open == 0)

    run(main())


CHUNKS = OK + b"transfer-encoding: chunked\r\n\r\n"
BAD = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "an endless status": b"HTTP/1.1 200 " + b"O" * 2 * MOST_BARREN,
    "an endless name": OK + b"x" * 2 * MOST_BARREN,
    "a long header": OK + b"x: " + b"y" * LONGEST_HEADER + b"\r\n\r\n",
    "many headers": OK + b"".join(b"x%d: y\r\n" % at for at in range(MOST_HEADERS + 1)) + b"\r\n",
    "much of one header": OK + b"x: yyyyyyyyyyyyyyyy\r\n" * 20_000,
    "many interim heads": b"HTTP/1.1 100 Continue\r\n\r\n" * (MOST_INTERIM + 1) + whole(b"a"),
    "a NUL in a header": OK + b"x: a\0b\r\n\r\n",
    "a folded header": OK + b"x: a\r\n b\r\n\r\n" + b"x",
    "a space before a colon": OK + b"content-length : 1\r\n\r\na",
    "two lengths": OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "a length and chunks": OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length below nothing": OK + b"content-length: -1\r\n\r\n",
    "a length that is no number": OK + b"content-length: 0x10\r\n\r\n",
    "a length past all bounds": OK + b"content-length: 99999999999999999999999\r\n\r\n",
    "a packed way": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk of no number": CHUNKS + b"xyz\r\n",
    "a chunk below nothing": CHUNKS + b"-1\r\n",
    "a chunk past all bounds": CHUNKS + b"fffffffffffffffff\r\n",
    "a chunk that is longer than it says": CHUNKS + b"1\r\nabc\r\n0\r\n\r\n",
    "an endless extension": CHUNKS + b"1;a=" + b"b" * 2 * MOST_BARREN,
    "endless trailers": CHUNKS + b"1\r\na\r\n0\r\n" + b"x: y\r\n" * MOST_BARREN,
    "an endless trailer": CHUNKS + b"1\r\na\r\n0\r\nx: " + b"y" * 2 * MOST_BARREN,
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("step", [97, 1_000_000])
def test_what_is_no_answer_or_past_a_bound_fails_and_ends_the_connection(run: Any, kind: str, step: int) -> None:
    """Though the server would go on for ever; the next request is served by another connection."""
    sent = BAD[kind]
    bad = says(*[sent[at : at + step] for at in range(0, len(sent), step)])
    good = says(whole(b"good"))
    came = 0

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        await (bad if came == 1 else good)(reader, writer)

    async def main() -> None:
        async with served(act) as (pool, server):
            with pytest.raises((BadResponse, ConnectionClosed)) as failure:
                await body_of(await ask(pool))
            assert failure.type is BadResponse, failure.value
            assert await body_of(await ask(pool)) == b"good"
            await soon(lambda: server.open == 1)

    run(main())


BEHIND = {
    "another answer": whole(b"other"),
    "garbage": b"\xff\xfe garbage",
    "an interim head": b"HTTP/1.1 100 Continue\r\n\r\n",
    "more than its length": b"more",
    "very much": b"x" * 300_000,
}


@pytest.mark.parametrize("kind", BEHIND)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_what_comes_behind_an_answer_is_nobodys(run: Any, kind: str, apart: bool) -> None:
    own, more = whole(b"own"), BEHIND[kind]

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            for part in (own, more) if apart else (own + more,):
                writer.write(part)
                await asyncio.sleep(0.02)

    async def main() -> None:
        async with served(act) as (pool, server):
            for _ in range(3):
                assert await body_of(await ask(pool)) == b"own"
                await asyncio.sleep(0.1)
            assert server.connections == 3

    run(main())


def test_another_protocol_is_not_gone_on_with(run: Any) -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"

    async def main() -> None:
        async with served(says(head + b"\x81\x05hello")) as (pool, server):
            for _ in range(2):
                response = await ask(pool)
                assert response.status == 101
                response.close()
            await soon(lambda: server.open == 0)
            assert server.connections == 2

    run(main())


# --- time -------------------------------------------------------------------------------------------------------


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"{}")
    for letter in OK + b"x: " + b"y" * 4000:
        writer.write(bytes([letter]))
        await asyncio.sleep(0.02)


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("act", [drips, hangs])
def test_a_head_is_waited_for_until_its_time(run: Any, act: Serve) -> None:
    async def main() -> None:
        async with served(act) as (pool, server):
            with pytest.raises(TimeoutError) as failure:
                await ask(pool, 0.2)
            assert not isinstance(failure.value, HttpFailure)
            await soon(lambda: server.open == 0)

    run(main())


def test_a_body_is_waited_for_until_its_time_and_what_came_is_read(run: Any) -> None:
    async def main() -> None:
        async with served(says(OK + b"content-length: 10\r\n\r\nhello")) as (pool, server):
            response = await ask(pool)
            assert await response.read(later()) == b"hello"
            with pytest.raises(TimeoutError):
                await response.read(later(0.1))
            await soon(lambda: server.open == 0)

    run(main())


def test_a_limit_of_an_earlier_request_ends_no_later_one(run: Any) -> None:
    """The limits of a connection share a timer: one that was kept is not the next one's."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for wait_s in (0.0, 0.4):
            await reader.readuntil(b"{}")
            await asyncio.sleep(wait_s)
            writer.write(whole(b"hello"))
        await reader.read()

    async def main() -> None:
        async with served(act) as (pool, server):
            assert await body_of(await ask(pool, 0.2)) == b"hello"
            assert await body_of(await ask(pool, LONG_S)) == b"hello"
            assert server.connections == 1

    run(main())


def test_an_alarm_that_is_moved_later_needs_no_timer_and_rings_once(run: Any) -> None:
    async def main() -> None:
        loop, rung, timers = asyncio.get_running_loop(), [], 0

        class Counting:
            time = staticmethod(loop.time)

            def call_at(self, at: float, call: Callable[[], None]) -> asyncio.TimerHandle:
                nonlocal timers
                timers += 1
                return loop.call_at(at, call)

        alarm = Alarm(Counting(), lambda: rung.append(loop.time()))  # type: ignore[arg-type]
        began = loop.time()
        for at in range(100):
            alarm.set(began + 0.05 + at / 1000)
        assert timers == 1
        await soon(lambda: rung)
        assert rung[0] - began >= 0.148
        assert timers == 2
        alarm.set(loop.time() + LONG_S)
        alarm.set(loop.time() + 0.01)  # earlier
        await soon(lambda: len(rung) == 2)
        alarm.set(loop.time() + 0.01)
        alarm.clear()
        await asyncio.sleep(0.05)
        alarm.close()
        assert len(rung) == 2

    run(main())


# --- hanging up, and taking turns -------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", OK + b"content-length: 10\r\n\r\nhello"], ids=["head", "body"])
def test_who_is_cancelled_hangs_up(run: Any, begun: bytes) -> None:
    async def main() -> None:
        async with served(says(begun)) as (pool, server):

            async def wait() -> None:
                response = await ask(pool)
                try:
                    await body_of(response)
                finally:
                    response.close()

            task = asyncio.ensure_future(wait())
            await soon(lambda: server.open == 1)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await soon(lambda: server.open == 0)

    run(main())


def test_no_more_connections_than_allowed_and_turns_in_order(run: Any) -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            await asyncio.sleep(0.01)
            writer.write(whole(b"a"))

    async def main() -> None:
        order: list[int] = []
        async with served(act, most=2) as (pool, server):

            async def one(number: int) -> None:
                await body_of(await ask(pool))
                order.append(number)

            await asyncio.gather(*(one(at) for at in range(20)))
            assert server.most_open == server.connections == 2
            assert all(abs(number - at) <= 2 for at, number in enumerate(order))

    run(main())


def test_turns_of_who_is_cancelled_and_of_who_fails_go_to_others(run: Any) -> None:
    """Among them some that are cancelled in the moment in which it is their turn."""
    served_ones = 0

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served_ones
        while True:
            await reader.readuntil(b"{}")
            served_ones += 1
            if served_ones % 3 == 0:
                return
            writer.write(whole(b"a"))

    async def main() -> None:
        async with served(act, most=2) as (pool, server):
            for round_ in range(30):
                tasks = [asyncio.ensure_future(ask(pool)) for _ in range(8)]
                for _ in range(round_ % 7):
                    await asyncio.sleep(0.001)
                for task in tasks[round_ % 3 :: 3]:
                    task.cancel()
                for answer in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(answer, Response):
                        answer.close()
            assert server.most_open <= 3  # one of them may not know yet that it was closed
            last = [ask(pool) for _ in range(2)]
            await asyncio.gather(*last, return_exceptions=True)
            assert pool._begun <= 2
            assert pool._begun == len(pool._all)

    run(main())


def test_who_waits_for_a_turn_waits_until_its_time(run: Any) -> None:
    async def main() -> None:
        async with served(hangs, most=1) as (pool, server):
            first = asyncio.ensure_future(ask(pool))
            await soon(lambda: server.open == 1)
            with pytest.raises(TimeoutError):
                await ask(pool, 0.1)
            first.cancel()
            await soon(lambda: server.open == 0)
            assert pool._begun == 0

    run(main())


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(run: Any) -> None:
    async def main() -> None:
        async with served(says(whole(b"a"), then="close")) as (pool, server):
            for _ in range(3):
                assert await body_of(await ask(pool)) == b"a"
                await soon(lambda: not pool._all)
            assert server.connections == 3

    run(main())


def test_connections_that_nobody_uses_are_closed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "KEPT_S", 0.2)

    async def main() -> None:
        async with served(says(whole(b"a"))) as (pool, server):
            for response in await asyncio.gather(*(ask(pool) for _ in range(5))):
                await body_of(response)
            assert server.open == 5
            await soon(lambda: server.open == 0)
            assert pool._begun == 0
            assert await body_of(await ask(pool)) == b"a"

    run(main())


def test_closing_ends_what_runs_and_what_waits(run: Any) -> None:
    async def main() -> None:
        async with served(hangs, most=1) as (pool, server):
            tasks = [asyncio.ensure_future(ask(pool)) for _ in range(3)]
            await soon(lambda: server.open == 1)
            pool.close()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one) for one in found] == [ConnectionClosed] * 3
            with pytest.raises(ConnectionClosed):
                await ask(pool)

    run(main())


# --- much at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_chunks", [True, False])
def test_who_reads_slowly_is_sent_no_more_than_it_holds(run: Any, as_chunks: bool) -> None:
    piece, count = b"z" * 65_536, 400
    sent = 0

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"{}")
        writer.write(CHUNKS if as_chunks else OK + b"content-length: %d\r\n\r\n" % (len(piece) * count))
        for _ in range(count):
            writer.write(b"10000\r\n" + piece + b"\r\n" if as_chunks else piece)
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n" if as_chunks else b"")
        await reader.read()

    async def main() -> None:
        async with served(act) as (pool, server):
            response = await ask(pool)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.2)
            assert sent < count
            assert response.held <= 3 * AT_ONCE
            assert len(await body_of(response)) == len(piece) * count
            assert server.connections == 1

    run(main())


def test_a_reset_behind_much_that_was_not_read_is_a_failure_of_its_reader(run: Any) -> None:
    async def main() -> None:
        async with served(says(OK + b"content-length: 1000000\r\n\r\n" + b"z" * 500_000, then="reset")) as (pool, _):
            response = await ask(pool)
            await asyncio.sleep(0.1)
            with pytest.raises(ConnectionClosed):
                await body_of(response)

    run(main())


@pytest.mark.parametrize("size", [10, 100_000, 20_000_000])
def test_a_request_is_called_written_when_all_of_it_left(run: Any, size: int) -> None:
    go_on = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if size > 10_000_000:
            await go_on.wait()
        await reader.readexactly(size)
        writer.write(whole(b"a"))
        await reader.read()

    async def main() -> None:
        written = 0

        def note() -> None:
            nonlocal written
            written += 1

        async with served(act) as (pool, _):
            task = asyncio.ensure_future(pool.ask(b"x" * size, note, later()))
            await asyncio.sleep(0.2)
            assert written == (size < 10_000_000)
            go_on.set()
            assert (await task).status == 200
            assert written == 1

    run(main())


def test_an_answer_before_the_end_of_its_request_ends_the_connection(run: Any) -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(10)
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.sleep(0.5)

    async def main() -> None:
        written: list[int] = []
        async with served(act) as (pool, server):
            for _ in range(2):
                response = await pool.ask(b"x" * 20_000_000, lambda: written.append(1), later())
                assert (response.status, await body_of(response)) == (413, b"no")
            assert server.connections == 2
            assert not written

    run(main())


# --- connecting -------------------------------------------------------------------------------------------------


def test_where_nobody_listens_is_said_at_once_and_room_is_given_back(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def main() -> None:
        pool = pool_to(port, most=1)
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await ask(pool)
        assert pool._begun == 0
        pool.close()

    run(main())


def test_connecting_takes_no_longer_than_it_may(run: Any) -> None:
    """TLS begins with what the client says; this server says nothing to it."""

    async def main() -> None:
        listener = await asyncio.start_server(hangs, "127.0.0.1", 0)
        address = ServerAddress.of(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        terms = ssl.create_default_context()
        pool = Pool(Connector(address, connect_s=0.2, only_public=False, tls=terms), 1)
        with pytest.raises(ConnectTimedOut):
            await ask(pool)
        assert pool._begun == 0
        pool.close()
        listener.close()

    run(main())


def test_the_next_address_is_tried_where_one_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with served(says(whole(b"a"))) as (_, server):
            alive, looked = ("127.0.0.1", server.port), 0

            async def two(*arguments: Any, **flags: Any) -> list[Any]:
                nonlocal looked
                looked += 1
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", at) for at in (("127.0.0.1", 1), alive)]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
            pool = pool_to(server.port, host="name.example")
            for response in await asyncio.gather(ask(pool), ask(pool)):
                await body_of(response)
            await ask(pool)
            assert looked <= 2  # two at once may both look; the third believes them
            pool.close()

    asyncio.run(main())


def test_a_certificate_is_judged(run: Any, certificate: tuple[str, str]) -> None:
    """By who signed it, and by the name in it; a body of some length passes in both directions."""
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(*certificate)
    believes, strict = ssl.create_default_context(cafile=certificate[0]), ssl.create_default_context()
    big = b"z" * 1_000_000

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readexactly(len(big))
            writer.write(whole(big))
            await writer.drain()

    async def main() -> None:
        async with served(act, server_tls=own, tls=believes, host="localhost") as (pool, server):
            for _ in range(2):
                written: list[int] = []
                response = await pool.ask(big, lambda: written.append(1), later())  # noqa: B023
                assert (await body_of(response), written) == (big, [1])
            assert server.connections == 1
            for refused in (pool_to(server.port, host="localhost", tls=strict), pool_to(server.port, tls=believes)):
                with pytest.raises(ConnectFailed):
                    await ask(refused)
                refused.close()

    run(main())


# --- heads of requests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "head"),
    [
        ("http://a.example/v1", b"GET /v1/x HTTP/1.1\r\nhost: a.example\r\n"),
        ("http://a.example:8000", b"GET /x HTTP/1.1\r\nhost: a.example:8000\r\n"),
        ("https://a.example:443/", b"GET /x HTTP/1.1\r\nhost: a.example\r\n"),
        ("https://a.example:80/v1", b"GET /v1/x HTTP/1.1\r\nhost: a.example:80\r\n"),
        ("http://[::1]:81/v1", b"GET /v1/x HTTP/1.1\r\nhost: [::1]:81\r\n"),
        ("http://bücher.example/v1", b"GET /v1/x HTTP/1.1\r\nhost: xn--bcher-kva.example\r\n"),
        ("http://a.example/ö b/%20", b"GET /%C3%B6%20b/%20/x HTTP/1.1\r\nhost: a.example\r\n"),
    ],
)
def test_the_head_names_the_host_and_the_path(url: str, head: bytes) -> None:
    assert ServerAddress.of(url).head("GET", "/x") == head


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b", "a\x7fb"])
def test_a_header_stays_in_its_line(value: str) -> None:
    assert lines_of({"a": "b c", "d": "é"}) == b"a: b c\r\nd: \xc3\xa9\r\n"
    with pytest.raises(ValueError, match="authorization"):
        lines_of({"authorization": value})
