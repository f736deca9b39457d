"""What tokens cost, by model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.settings import PriceSettings
from sluicegate.plugins import Usage

EVERY_OTHER = "*"
FREE = (0, 0, 0)
TOOLS = "mcp/"
"""Prefix of MCP servers' names: prices for "every other model" do not apply to them."""


class Prices:
    """Prices of a million tokens, in whole billionths a token: a price has at most three digits after the point."""

    def __init__(self, prices: Mapping[str, PriceSettings]) -> None:
        self._rates = {model: _rates(price) for model, price in prices.items()}
        self._calls = {name: round(price.call * NANOS) for name, price in prices.items() if name.startswith(TOOLS)}

    def cost_nanos(self, model: str, usage: Usage) -> int:
        """Return the cost of `usage` in billionths; a model without a price is free."""
        fresh, cached, out = self._of(model)
        return (
            (usage.prompt_tokens - usage.cached_tokens) * fresh
            + usage.cached_tokens * cached
            + usage.completion_tokens * out
            + self._calls.get(model, 0)
        )

    def most_nanos(self, models: Collection[str] | None, prompt_tokens: int, completion_tokens: int) -> int:
        """Return the most that so many tokens can cost, whichever of `models` writes them. None: any model that has a
        price."""
        rates = [self._of(model) for model in models] if models is not None else list(self._rates.values())
        costs = [prompt_tokens * max(fresh, cached) + completion_tokens * out for fresh, cached, out in rates]
        calls = [self._calls.get(model, 0) for model in models] if models is not None else []
        return max(costs, default=0) + max(calls, default=0)

    def _of(self, model: str) -> tuple[int, int, int]:
        """Return the rates of (prompt, reused prompt, answer). A version `model@v2` without a price of its own costs
        what `model` does."""
        rates = self._rates
        found = rates.get(model)
        if found is None and "@" in model:
            found = rates.get(model.partition("@")[0])
        if found is None and not model.startswith(TOOLS):
            found = rates.get(EVERY_OTHER)
        return FREE if found is None else found


def _rates(price: PriceSettings) -> tuple[int, int, int]:
    cached = price.input if price.cached_input is None else price.cached_input
    return round(price.input * 1000), round(cached * 1000), round(price.output * 1000)
