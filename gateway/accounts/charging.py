"""Charge a request: figures that stores can keep, whatever a model reports."""

from __future__ import annotations

import logging

from sluicegate.gateway.accounts.bounds import MAX_NANOS, bounded, plausible
from sluicegate.gateway.accounts.limits.estimates import CHARS_PER_TOKEN
from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.limits.prices import Prices
from sluicegate.plugins import Outcome, Usage

log = logging.getLogger("sluicegate.accounts")


def charged(outcome: Outcome, prices: Prices, reserved: UsageEstimate | None) -> tuple[Usage, int, bool]:
    """Return (usage, cost in billionths, whether a figure was cut). An implausible figure is cut to the nearest
    plausible one and costs no less than was reserved: unknown is never free."""
    used = outcome.usage
    known = plausible(used)
    if not known:
        used = bounded(used)
    cost = prices.cost_nanos(outcome.model, used)
    if known and cost <= MAX_NANOS:
        return used, cost, False
    log.error(
        "request %s of key %r: model %r reports usage that cannot be (%.200r, cost %d); it is charged as %s",
        *(outcome.request.id, outcome.caller.key_id, outcome.model, outcome.usage, cost, used),
    )
    least = reserved.nanos if reserved is not None and not known else 0
    return used, min(max(cost, least), MAX_NANOS), True


def tokens_a_minute(outcome: Outcome, counted: Usage) -> int:
    """Return the tokens to count against the limit a minute. A cached answer counts as if it had been generated."""
    if not outcome.cached:
        return counted.prompt_tokens + counted.completion_tokens
    chars = sum(len(m.content) for m in outcome.request.messages) + sum(len(a.text) for a in outcome.answers)
    return chars // CHARS_PER_TOKEN
