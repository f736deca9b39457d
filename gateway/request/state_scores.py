"""How a generation is asked for the probes' scores of its tokens: with each piece, by the sentence, or behind the text.

Scores cost work for each piece that brings some, so several come together wherever nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Set

from sluicegate.gateway.rails.states import any_enforced, holds_texts
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Channel

PLAIN: Set[Channel] = frozenset({"content"})
SHAPED: Set[Channel] = frozenset({"content", "reasoning", "tool_arguments"})


def may_join(exchange: Exchange) -> bool:
    """Return whether pieces may be joined to sentences: where a judge holds all texts of the answer anyway."""
    channels = PLAIN if exchange.attempt.shape.is_plain else SHAPED
    return _keeps_parts(exchange) and holds_texts(exchange.safety.state_rails, exchange.safety.policy, channels)


def may_follow(exchange: Exchange) -> bool:
    """Return whether scores may come after their text: where judges of states only watch."""
    rails = exchange.safety.state_rails
    return bool(rails) and _keeps_parts(exchange) and not any_enforced(rails, exchange.safety.policy)


def _keeps_parts(exchange: Exchange) -> bool:
    """Return whether scores stay with the characters of their tokens on the way to the judges: `ContentStops` cuts
    these anew."""
    return exchange.attempt.shape.is_plain or not exchange.request.sampling.stop
