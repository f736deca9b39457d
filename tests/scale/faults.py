"""What is done to a deployment while callers ask. Each returns when it is over: what was broken is there again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.scale.deployment import FullDeployment
from tests.scale.load import ask
from tests.waiting import until

FULL_S = 5.0
LIES = 8
"""Answers that are asked of the server that is not to be believed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`lines_again`: of a batch, that may be asked and charged again. `fills_disks`: needs disks that can be filled."""

    happens: Callable[[FullDeployment], None]
    lines_again: int = 0
    fills_disks: bool = False


def nothing(deployment: FullDeployment) -> None:
    time.sleep(3)


def gateway_killed(deployment: FullDeployment) -> None:
    gateway = deployment.gateways[0]
    gateway.kill()
    time.sleep(2)
    gateway.begin()
    until(gateway.serves)


def gateway_stands_still(deployment: FullDeployment) -> None:
    """Freeze a gateway for longer than the lease of its batches."""
    deployment.gateways[1].signal(signal.SIGSTOP)
    time.sleep(8)
    deployment.gateways[1].signal(signal.SIGCONT)


def rolling_restart(deployment: FullDeployment) -> None:
    for gateway in deployment.gateways:
        assert gateway.stop() == 0
        gateway.begin()
        until(gateway.serves)


def no_descriptor_left(deployment: FullDeployment) -> None:
    deployment.gateways[0].limit_files(to_what_is_open=True)
    time.sleep(FULL_S)
    deployment.gateways[0].limit_files(to_what_is_open=False)


def journal_disk_full(deployment: FullDeployment) -> None:
    disk = deployment.gateways[0].journal_disk
    disk.fill()
    time.sleep(FULL_S)
    disk.free()


def folder_full(deployment: FullDeployment) -> None:
    deployment.files_disk.fill()
    time.sleep(2 * FULL_S)
    deployment.files_disk.free()


def database_killed(deployment: FullDeployment) -> None:
    deployment.database.kill()
    time.sleep(3)
    deployment.database.start()


def database_frozen(deployment: FullDeployment) -> None:
    deployment.database.freeze()
    time.sleep(5)
    deployment.database.thaw()


def database_connections_cut(deployment: FullDeployment) -> None:
    """Cut all connections in the middle of whatever they do, as an operator or a proxy does, forty times."""
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where usename is not null and pid <> pg_backend_pid()"
    for _ in range(40):
        deployment.database.ask(cut)
        time.sleep(0.1)


def database_restarted(deployment: FullDeployment) -> None:
    """Stop and start the server thrice, as an upgrade does."""
    for _ in range(3):
        deployment.database.stop()
        deployment.database.start_again()
        time.sleep(0.5)


def database_disk_full(deployment: FullDeployment) -> None:
    """Fill the database's disk. A server that cannot write its log ends; somebody starts it again."""
    deployment.database_disk.fill()
    time.sleep(FULL_S)
    deployment.database_disk.free()
    deployment.database.start_again()


def redis_frozen(deployment: FullDeployment) -> None:
    """Freeze Redis for less than Sentinel bears."""
    assert deployment.sentinel is not None
    deployment.sentinel.ask("SENTINEL", "SET", "main", "down-after-milliseconds", "60000")
    deployment.main.freeze()
    time.sleep(FULL_S)
    deployment.main.thaw()
    deployment.sentinel.ask("SENTINEL", "SET", "main", "down-after-milliseconds", "1500")


def redis_full(deployment: FullDeployment) -> None:
    deployment.main.ask("CONFIG", "SET", "maxmemory", "1")
    time.sleep(FULL_S)
    deployment.main.ask("CONFIG", "SET", "maxmemory", "0")


def redis_takes_no_writes(deployment: FullDeployment) -> None:
    deployment.main.ask("CONFIG", "SET", "min-replicas-to-write", "9")
    time.sleep(FULL_S)
    deployment.main.ask("CONFIG", "SET", "min-replicas-to-write", "0")


def redis_emptied(deployment: FullDeployment) -> None:
    deployment.main.ask("FLUSHALL")
    time.sleep(2)


def redis_fails_over(deployment: FullDeployment) -> None:
    deployment.fail_over()


def lied_to(deployment: FullDeployment) -> None:
    """Ask a liar, some of whose answers say of themselves that they are twelve trillion tokens; then restart a
    gateway."""
    for _ in range(LIES):
        ask(deployment.url, "deceived", "liar")
    gateway = deployment.gateways[2]
    assert gateway.stop() == 0
    gateway.begin()
    until(gateway.serves)


UNDER_WAY = 4
"""Lines that a gateway asks at a time."""
FAULTS = {
    "none": Fault(nothing),
    "a gateway is killed (SIGKILL) and started again": Fault(gateway_killed, UNDER_WAY),
    "a gateway stands still (SIGSTOP), for longer than its lease": Fault(gateway_stands_still, UNDER_WAY),
    "all gateways restart, one after the other (SIGTERM)": Fault(rolling_restart, 3 * UNDER_WAY),
    "a gateway has no descriptor left": Fault(no_descriptor_left),
    "the disk of a gateway's journal is full": Fault(journal_disk_full, fills_disks=True),
    "the disk of the shared folder is full": Fault(folder_full, fills_disks=True),
    "PostgreSQL is killed for 3 s": Fault(database_killed),
    "PostgreSQL stands still for 5 s": Fault(database_frozen),
    "all connections to PostgreSQL are cut, forty times": Fault(database_connections_cut),
    "PostgreSQL restarts, thrice": Fault(database_restarted),
    "the disk of PostgreSQL is full": Fault(database_disk_full, fills_disks=True),
    "Redis stands still for 5 s": Fault(redis_frozen),
    "Redis is full": Fault(redis_full),
    "Redis takes no writes": Fault(redis_takes_no_writes),
    "Redis is emptied": Fault(redis_emptied),
    "another server claims 12,000,000,000,000 tokens; a gateway restarts": Fault(lied_to, UNDER_WAY),
    "the main Redis is killed, Sentinel chooses the other": Fault(redis_fails_over),
}
"""By what the table calls them; the last one leaves one Redis."""
