"""What gateways tell each other of the runs of agents: questions, answers, and who answers them.

A share is what one request has reserved of one run, under a ticket of its own. A ticket counts once, however often it
is sent, and one that was given back counts no more, even where its reservation comes later: so a gateway that got no
answer can give back what it may have, and nothing stays counted that nobody knows of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from sluicegate.cache.stores.redis_client import why_of
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import Overloaded

IDLE_S = 3600.0
"""A run without a request for this long is forgotten."""
MOST_RUNS = 1000
"""Most concurrent runs of one key or team that are counted separately."""
NO_LIMIT = -1
UNREACHABLE = "what a run has used is counted in a store that gateways share, and it cannot be reached now; try again"
Outcome = Literal["taken", "late", "runs", "calls", "tokens", "nanos", "time"]
OUTCOMES: tuple[Outcome, ...] = ("taken", "late", "runs", "calls", "tokens", "nanos", "time")


@dataclass(frozen=True, slots=True)
class RunShare:
    """`owner`: `key:ID` or `team:NAME`; `run`: a digest, as a run's name is the caller's; `tokens` and `nanos` are
    reserved."""

    owner: str
    run: str
    ticket: str
    tokens: int
    nanos: int


@dataclass(frozen=True, slots=True)
class RunBounds:
    """Of one run; `NO_LIMIT` = none."""

    calls: int
    tokens: int
    nanos: int
    ms: int


@dataclass(frozen=True, slots=True)
class RunStanding:
    """`taken`, or what kept the share from being: `late` where it had been given back. The rest is what the run had
    used before, on all gateways together."""

    outcome: Outcome
    calls: int = 0
    tokens: int = 0
    nanos: int = 0
    ms: int = 0


@dataclass(frozen=True, slots=True)
class RunSettlement:
    """The usage of a share. `dropped`: none, as its request was not admitted; `lost`: and it is unknown whether the
    share was reserved, so its ticket must not count any more."""

    share: RunShare
    tokens: int = 0
    nanos: int = 0
    dropped: bool = False
    lost: bool = False


class RunStore(Protocol):
    """Used on the event loop. Both raise `Overloaded` where the store does not answer."""

    async def take(self, share: RunShare, bounds: RunBounds) -> RunStanding: ...

    async def settle(self, settlement: RunSettlement) -> None:
        """Count what was used in place of what was reserved. The same settlement may come again."""

    async def close(self) -> None: ...


def bounds_of(limits: Limits) -> RunBounds:
    return RunBounds(
        NO_LIMIT if limits.run_calls is None else limits.run_calls,
        NO_LIMIT if limits.run_tokens is None else limits.run_tokens,
        NO_LIMIT if limits.run_cost is None else round(limits.run_cost * NANOS),
        NO_LIMIT if limits.run_s is None else round(limits.run_s * 1000),
    )


def share_of(owner: str, run: str, ticket: str, need: UsageEstimate) -> RunShare:
    return RunShare(owner, hashlib.sha256(run.encode()).hexdigest()[:32], ticket, need.tokens, need.nanos)


def read_standing(parts: object) -> RunStanding:
    """Read a store's reply about a run. Raises `ValueError` for what a store cannot have said, or found damaged."""
    if not isinstance(parts, list | tuple) or len(parts) != 5:
        raise ValueError("a reply of another shape")
    said = parts[0].decode("ascii") if isinstance(parts[0], bytes) else str(parts[0])
    if said not in OUTCOMES:
        raise ValueError(f"what is kept of a run is {said[:20]!r}")
    return RunStanding(said, *(int(part) for part in parts[1:]))


@contextmanager
def answering(health: Health) -> Iterator[None]:
    """Turn any error inside into `Overloaded`: a request is refused where its limit cannot be checked."""
    try:
        yield
    except Exception as error:
        health.counts["lease_failures"] += 1
        reason = f"the store of shared runs does not answer: {why_of(error)}"
        health.begin("runs", reason, error)
        raise Overloaded(UNREACHABLE, retry_after_s=1.0) from error
    health.end("runs")
