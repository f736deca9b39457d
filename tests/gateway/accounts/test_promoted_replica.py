"""A replica becomes the main Redis, and the address of the old one leads to it: the old one still runs, as a replica,
and has the connections that were made before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sluicegate.cache.stores.redis_client import Tls, connect
from sluicegate.gateway.accounts.changes import revoke
from sluicegate.plugins import BooksUnavailable
from tests.cache.redis_proxy import RedisProxy
from tests.cache.redis_server import RedisServer, needs_redis
from tests.gateway.accounts.test_sharing import asked, key, opened, settle

pytestmark = needs_redis
TRIES = 3
"""More than there are old connections of one client here."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    """Yield a main server and its replica."""
    for name in ("main", "replica"):
        (tmp_path / name).mkdir()
    main = RedisServer(tmp_path / "main")
    main.start()
    replica = RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(main.port))
    replica.start()
    yield main, replica
    for server in (main, replica):
        server.kill()


@pytest.fixture
def address(servers: tuple[RedisServer, RedisServer]) -> Iterator[RedisProxy]:
    with RedisProxy(servers[0].port) as found:
        found_url = RedisServer(servers[0].folder, port=found.port)
        assert found_url.ask("PING") == b"+PONG\r\n"
        yield found


def promote(servers: tuple[RedisServer, RedisServer], address: RedisProxy) -> None:
    main, replica = servers
    main.wait_until_replicated()
    replica.ask("REPLICAOF", "NO", "ONE")
    main.ask("REPLICAOF", "127.0.0.1", str(replica.port))
    address.server_port = replica.port


async def succeeded(work: Callable[[], Awaitable[object]]) -> None:
    """Try a few times; raise the last failure."""
    for left in reversed(range(TRIES)):
        try:
            await work()
        except (BooksUnavailable, OSError) as error:
            if not left:
                raise error
        else:
            return


async def test_limits_usage_and_keys_go_on_at_the_new_main_server(
    servers: tuple[RedisServer, RedisServer], address: RedisProxy
) -> None:
    """No request is refused: a question that the old server takes no more is asked of the new one."""
    accounts = await opened(address)  # type: ignore[arg-type]
    record = await key((accounts,), requests_per_minute=40, run_calls=100)
    running = [await asked(accounts, record)]
    await accounts.flush()
    promote(servers, address)
    running += [await asked(accounts, record) for _ in range(20)]
    assert None not in running
    for request in running:
        assert request is not None
        settle(accounts, record, request)
    await succeeded(lambda: accounts.change_key(record.id, revoke))
    await accounts.flush()
    assert sum(usage.requests for usage in (await accounts.usage("", "9")).values()) == 21
    assert servers[1].keys("*usage*")
    assert "leases" not in accounts.health.troubles
    await accounts.close()


async def test_a_client_of_a_cache_writes_to_the_new_main_server(
    servers: tuple[RedisServer, RedisServer], address: RedisProxy
) -> None:
    from redis.exceptions import ReadOnlyError

    client = connect(address.url, Tls())
    await client.set("a", 1)
    promote(servers, address)
    with pytest.raises(ReadOnlyError):
        await client.set("a", 2)
    assert await client.set("a", 3)
    assert servers[1].ask("GET", "a") == b"$1\r\n3\r\n"
    await client.aclose()
