"""How many nodes a day's requests need: node-seconds of a request, and the share of them that may be used.

    token        = step(places) / (places * tokens a step)
    node-seconds = (1 - kept answers) * (unread prompt / prefill rate + answer * token)
    nodes        = requests of the busiest second * node-seconds / utilisation

`benchmarks/scale_model.py` simulates the same figures, queues and all, and says which utilisation keeps an objective.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sluicegate.plugins import ConfigurationError

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """One node, as measured or at best. A step takes `step_s` for one sequence and `step_each_s` for each further one;
    `tokens_per_step`: of a sequence, 1 and the drafts of speculation that are accepted."""

    prefill_tokens_per_s: float
    step_s: float
    step_each_s: float
    places: int
    tokens_per_step: float = 1.0

    def __post_init__(self) -> None:
        numbers = [getattr(self, one.name) for one in fields(self)]
        if not all(isinstance(n, int | float) and math.isfinite(n) and n >= 0 for n in numbers):
            raise ConfigurationError("figures of a node must be finite numbers of at least 0")
        if not self.prefill_tokens_per_s or not self.step_s or self.places < 1 or self.tokens_per_step < 1:
            raise ConfigurationError(
                "figures of a node need a prefill rate and a step above 0, and at least 1 place and 1 token a step"
            )

    def step(self, sequences: int) -> float:
        """Return the seconds of one step."""
        return self.step_s + self.step_each_s * (max(1, sequences) - 1)

    @property
    def token_s(self) -> float:
        """Return the node-seconds of one token of an answer, with every place taken."""
        return self.step(self.places) / (self.places * self.tokens_per_step)


def read_figures(path: Path) -> NodeFigures:
    """Read them from a file of JSON, as `benchmarks.scale` writes it. Raises `ConfigurationError`."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        found = found.get("figures", found)
        return NodeFigures(**found)
    except OSError as error:
        raise ConfigurationError(f"--figures {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError) as error:
        names = ", ".join(one.name for one in fields(NodeFigures))
        raise ConfigurationError(f"--figures {path} must hold one JSON object with {names}: {error}") from error


@dataclass(frozen=True, slots=True)
class DailyDemand:
    """What a day brings, on average. `read`: share of the prompt that lies in the prefix cache; `kept`: share of the
    requests that a kept answer answers; `peak`: the busiest second over the mean."""

    requests: float
    prompt: float
    answer: float
    read: float = 0.0
    kept: float = 0.0
    peak: float = 2.0

    def __post_init__(self) -> None:
        if not (self.requests > 0 and self.prompt > 0 and self.answer > 0 and self.peak >= 1):
            raise ConfigurationError("requests a day, prompt and answer must be above 0, and the peak at least 1")
        if not (0 <= self.read < 1 and 0 <= self.kept < 1):
            raise ConfigurationError("shares of read prompts and of kept answers go from 0 to below 1")

    @property
    def peak_per_s(self) -> float:
        return self.requests / DAY_S * self.peak

    def node_s(self, node: NodeFigures) -> float:
        """Return the seconds of a busy node that one request takes, on average."""
        computed = self.prompt * (1 - self.read) / node.prefill_tokens_per_s + self.answer * node.token_s
        return (1 - self.kept) * computed


@dataclass(frozen=True, slots=True)
class NodeCount:
    """`nodes` for a demand; prices are of a million tokens, in the currency of an hour's price."""

    nodes: int
    node_s: float
    input_price: float
    output_price: float


def nodes_of(demand: DailyDemand, node: NodeFigures, *, utilisation: float, price_per_hour: float = 0.0) -> NodeCount:
    """Return how many nodes a demand needs, and what a token costs. A token costs the seconds of a node that it takes,
    divided by the share of a day in which nodes compute: at `utilisation` in the busiest second, `utilisation / peak`
    over the day. Raises `ConfigurationError`."""
    if not 0 < utilisation <= 1:
        raise ConfigurationError(f"utilisation must be above 0 and at most 1, found {utilisation:g}")
    node_s = demand.node_s(node)
    million = price_per_hour / 3600 * 1e6 * demand.peak / utilisation
    return NodeCount(
        max(1, math.ceil(demand.peak_per_s * node_s / utilisation - 1e-9)),
        node_s,
        million * (1 - demand.read) / node.prefill_tokens_per_s,
        million * node.token_s,
    )
