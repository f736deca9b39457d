"""Keys, usage, limits and runs of agents in a real Redis Cluster of three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.gateway.accounts.changes import revoke
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.run_script import RedisRuns
from sluicegate.gateway.accounts.limits.run_store import NO_LIMIT, RunBounds, RunSettlement, RunShare
from sluicegate.gateway.accounts.stores.redis import IN_ONE_SLOT, prefix_of
from tests.cache.redis_server import RedisCluster, needs_redis
from tests.gateway.accounts.test_sharing import asked, key, many, once_answered, opened, settle

pytestmark = needs_redis


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    found = RedisCluster(tmp_path)
    yield from running(found)


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[RedisCluster]:
    yield from running(RedisCluster(tmp_path, replicas=True))


def running(cluster: RedisCluster) -> Iterator[RedisCluster]:
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def test_names_on_one_server_stay_what_they_were() -> None:
    """Gateways of the last release find what those of this one wrote."""
    for url in ("redis://h:1", "rediss://h:1", "redis+sentinel://h:1/s", "unix:///s"):
        assert prefix_of(url) == "sluicegate:accounts"
    assert prefix_of("redis+cluster://h:1") == prefix_of("rediss+cluster://h:1") == IN_ONE_SLOT


async def test_two_gateways_agree_in_a_cluster(cluster: RedisCluster) -> None:
    """Limits hold over both, usage is one sum, a key that one revokes the other refuses; all of it on one node."""
    pair = (await opened(cluster), await opened(cluster))
    record = await key(pair, requests_per_minute=20, budget_day=1.0)
    let_in = await many(pair, record, 30)
    assert len(let_in) == 20
    for accounts, request in let_in:
        settle(accounts, record, request)
    for accounts in pair:
        await accounts.flush()
    assert sum(usage.requests for usage in (await pair[1].usage("", "9")).values()) == 20
    await pair[0].change_key(record.id, revoke)
    await pair[1].refresh()
    assert pair[1].keyring.records[record.id].revoked_at_s is not None
    holders = [at for at, node in enumerate(cluster.mains) if node.keys("*accounts*")]
    assert holders == [cluster.main_of(IN_ONE_SLOT)]
    for accounts in pair:
        await accounts.close()


async def test_runs_of_agents_are_counted_in_a_cluster(cluster: RedisCluster) -> None:
    runs, bounds = RedisRuns(cluster.url, Health()), RunBounds(2, 100, NO_LIMIT, NO_LIMIT)
    shares = [RunShare("key:a", "r", f"t{at}", 10, 0) for at in range(3)]
    assert [(await runs.take(share, bounds)).outcome for share in shares] == ["taken", "taken", "calls"]
    await runs.settle(RunSettlement(shares[0], dropped=True))
    assert (await runs.take(RunShare("key:a", "r", "t3", 10, 0), bounds)).outcome == "taken"
    await runs.close()


async def test_a_replica_takes_over_from_the_node_that_keeps_the_accounts(replicated: RedisCluster) -> None:
    """Keys, usage and limits go on; what was written is waited for here, as nobody else does."""
    accounts = await opened(replicated)
    record = await key((accounts,), requests_per_minute=40)
    request = await asked(accounts, record)
    assert request is not None
    settle(accounts, record, request)
    await accounts.flush()
    at = replicated.main_of(IN_ONE_SLOT)
    main, replica = replicated.mains[at], replicated.replicas[at]
    main.wait_until_replicated()
    main.kill()
    replica.wait_for(b"role:master", "INFO", "replication")
    replica.wait_for(b"cluster_state:ok", "CLUSTER", "INFO")
    let_in = [await once_answered(lambda: asked(accounts, record)) for _ in range(45)]
    assert 35 <= sum(one is not None for one in let_in) <= 39
    table = await once_answered(lambda: accounts.usage("", "9"))
    assert sum(usage.requests for usage in table.values()) == 1
    await accounts.close()
