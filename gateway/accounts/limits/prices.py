"""What tokens cost, by model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sluicegate.gateway.settings import PriceSettings
from sluicegate.plugins import Usage

EVERY_OTHER = "*"


class Prices:
    """Prices of a million tokens, in whole billionths a token: a price has at most three digits after the point."""

    def __init__(self, prices: Mapping[str, PriceSettings]) -> None:
        self._rates = {model: _rates(price) for model, price in prices.items()}

    def cost_nanos(self, model: str, usage: Usage) -> int:
        """Of what was used; a model without a price is free."""
        fresh, cached, out = self._of(model)
        return (
            (usage.prompt_tokens - usage.cached_tokens) * fresh
            + usage.cached_tokens * cached
            + usage.completion_tokens * out
        )

    def most_nanos(self, models: Collection[str] | None, prompt_tokens: int, completion_tokens: int) -> int:
        """What so many tokens cost at most, whichever of `models` writes them; None: any that has a price."""
        rates = [self._of(model) for model in models] if models is not None else list(self._rates.values())
        costs = [prompt_tokens * max(fresh, cached) + completion_tokens * out for fresh, cached, out in rates]
        return max(costs, default=0)

    def _of(self, model: str) -> tuple[int, int, int]:
        """(prompt, reused prompt, answer); a version `model@v2` without a price of its own costs what `model` does."""
        for name in (model, model.partition("@")[0], EVERY_OTHER):
            if name in self._rates:
                return self._rates[name]
        return 0, 0, 0


def _rates(price: PriceSettings) -> tuple[int, int, int]:
    cached = price.input if price.cached_input is None else price.cached_input
    return round(price.input * 1000), round(cached * 1000), round(price.output * 1000)
