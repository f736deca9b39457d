"""What one run of an agent has used: all requests and calls of tools that name the run, or that name none.

A run is named by its caller, so that a limit of runs keeps an agent that goes round in circles from going on, and not a
caller who begins a new run for each request: that is what limits a minute and budgets are for. Each gateway counts what
passes through itself; where gateways share limits, `SharedRuns` counts for all of them as well, and what was counted
here is the least that a run has used, even if their store forgets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.limits.run_store import IDLE_S, MOST_RUNS, Outcome, RunStanding, bounds_of
from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import RateLimited, RequestError
from sluicegate.plugins.errors import plain

RUN_HEADER = b"x-sluicegate-run"
DEPTH_HEADER = b"x-sluicegate-depth"
DEEPEST = 1000
_RUN = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class RunMark:
    """What a request says of its run: "" = none. `depth`: agents above it that called each other."""

    run: str = ""
    depth: int = 0


NO_RUN = RunMark()
MARK: ContextVar[RunMark] = ContextVar("sluicegate_run", default=NO_RUN)
"""The run of the request being served."""


def mark_of(run: str, depth: object) -> RunMark:
    """Return the mark of a run. Raises `RequestError` for what names no run: a name that is passed over would count for
    another run."""
    if run and not _RUN.fullmatch(run):
        raise RequestError("a run is named by 1 to 128 of A-Z, a-z, 0-9, . _ : / and -", code="invalid_run")
    if isinstance(depth, str):
        depth = int(depth) if depth.isascii() and depth.isdecimal() and len(depth) <= 4 else -1
    if type(depth) is not int or not 0 <= depth <= DEEPEST:
        raise RequestError(f"the depth of a run is a whole number from 0 to {DEEPEST}", code="invalid_run")
    return RunMark(run, depth)


def mark_of_headers(headers: Mapping[bytes, bytes]) -> RunMark:
    run, depth = headers.get(RUN_HEADER, b""), headers.get(DEPTH_HEADER, b"0")
    return mark_of(run.decode("latin-1"), depth.decode("latin-1")) if run or depth != b"0" else NO_RUN


@dataclass(slots=True)
class RunUse:
    """Usage of one run. `reserved_...`: of requests that have not ended."""

    began_s: float
    used_s: float
    calls: int = 0
    tokens: int = 0
    nanos: int = 0

    def settle(self, need: UsageEstimate, tokens: int, nanos: int) -> None:
        """Replace what was reserved by what was used."""
        self.tokens += tokens - need.tokens
        self.nanos += nanos - need.nanos


def limits_runs(limits: Limits) -> bool:
    return not (
        limits.run_calls is limits.run_tokens is limits.run_cost is limits.run_s is limits.run_depth is None
    )  # no generator, since it is asked twice a request


class Runs:
    """Of all keys and teams that limit runs. Used on the event loop."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, RunUse]] = {}

    def check(self, name: str, limits: Limits, mark: RunMark, need: UsageEstimate) -> None:
        """Refuse a call that exceeds a limit of its run. `name` is that of the key or team, as the message shows it.
        Raises `RateLimited`."""
        if not limits_runs(limits):
            return
        check_depth(name, limits, mark)
        runs, now = self._of(name), time.monotonic()
        found = runs.get(mark.run)
        use = found or RunUse(now, now)
        standing = RunStanding("taken", use.calls, use.tokens, use.nanos, round((now - use.began_s) * 1000))
        if found is None and len(runs) >= MOST_RUNS:
            raise over(name, limits, mark, need, "runs", standing)
        most = bounds_of(limits)
        after: list[tuple[Outcome, float, int]] = [
            ("time", (now - use.began_s) * 1000, most.ms),
            ("calls", use.calls + 1, most.calls),
            ("tokens", use.tokens + need.tokens, most.tokens),
            ("nanos", use.nanos + need.nanos, most.nanos),
        ]
        for what, amount, limit in after:
            if 0 <= limit < amount:
                raise over(name, limits, mark, need, what, standing)

    def take(self, name: str, limits: Limits, mark: RunMark, need: UsageEstimate) -> RunUse | None:
        """Count a request that `check` admitted; None where no run is counted."""
        if not limits_runs(limits):
            return None
        now = time.monotonic()
        use = self._of(name).setdefault(mark.run, RunUse(now, now))
        use.used_s = now
        use.calls += 1
        use.tokens += need.tokens
        use.nanos += need.nanos
        return use

    def _of(self, name: str) -> dict[str, RunUse]:
        runs = self._kept.setdefault(name, {})
        oldest = time.monotonic() - IDLE_S
        for run in [run for run, use in runs.items() if use.used_s < oldest]:
            del runs[run]
        return runs


def check_depth(name: str, limits: Limits, mark: RunMark) -> None:
    """Refuse a run that is deeper than its limit: raises `RequestError`."""
    if limits.run_depth is not None and mark.depth > limits.run_depth:
        raise _ended(name, mark, f"is {mark.depth} agents deep, its most is {limits.run_depth}")


def over(
    name: str, limits: Limits, mark: RunMark, need: UsageEstimate, what: Outcome, used: RunStanding
) -> RequestError:
    """Return the error for a run that exceeds the limit `what`, or for one run too many. `used`: the run's usage
    before."""
    if what == "runs":
        return RateLimited(f"{name} has {MOST_RUNS} runs at a time; end some", retry_after_s=60.0)
    said = {
        "time": f"has gone on for {used.ms / 1000:.0f} s of {plain(limits.run_s or 0)} s",
        "calls": f"has made {used.calls} requests and calls, its most",
        "tokens": f"has used {used.tokens} of its {limits.run_tokens} tokens; this needs {need.tokens}",
        "nanos": f"has spent {used.nanos / NANOS:.6f} of {plain(limits.run_cost or 0)}",
    }
    return _ended(name, mark, said[what])


def _ended(name: str, mark: RunMark, said: str) -> RequestError:
    run = f"the run {mark.run!r}" if mark.run else "the run of all requests that name none"
    error = RequestError(f"{run} of {name} {said}; begin another run, or raise the limit", code="run_limit_exceeded")
    error.status = 429
    return error
