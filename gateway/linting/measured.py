"""What each advice brought on the bundled model, as `python -m benchmarks.values --variants all` printed it.

The model is very small: where it gains, larger ones mostly gain less; where it does not, that says little about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WEIGHTS = "af95791057631cff"
"""Version of the bundled model that was asked, as of commit f8c5744a."""


class Gain(NamedTuple):
    """Shares of `fields` that were right before and after the change, and the 95 % interval of the difference."""

    fields: int
    before: float
    after: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        change = f"{self.before:.0%} -> {self.after:.0%} of {self.fields} fields right"
        interval = f"95 %: {100 * self.low:+.0f} to {100 * self.high:+.0f} points"
        judged = "" if self.is_sure else "; no difference that is sure"
        return f"{change} ({interval}){judged}"


MEASURED: Mapping[str, Gain] = {
    "reasons-first": Gain(339, 0.941, 0.926, -0.03, 0.0),
    "enum": Gain(94, 0.521, 0.979, 0.358, 0.559),
    "description": Gain(130, 0.9, 0.915, 0.0, 0.039),
    "plain-keys": Gain(336, 0.824, 0.943, 0.073, 0.167),
    "abbreviations": Gain(336, 0.729, 0.943, 0.164, 0.27),
    "date-format": Gain(91, 0.374, 1.0, 0.527, 0.722),
    "nullable": Gain(308, 0.773, 0.883, 0.075, 0.15),
    "flat": Gain(336, 0.938, 0.943, -0.006, 0.019),
    "fewer-properties": Gain(226, 0.907, 0.912, -0.009, 0.018),
    "one-type": Gain(119, 0.975, 0.975, 0.0, 0.0),
    "closed": Gain(339, 0.944, 0.944, 0.0, 0.0),
    "max-length": Gain(196, 0.918, 0.918, 0.0, 0.0),
    "number-bounds": Gain(119, 0.975, 0.975, 0.0, 0.0),
    "max-items": Gain(101, 0.743, 0.743, 0.0, 0.0),
}
"""By rule. A rule without an entry concerns cost or certainty, or cannot be shown with the bundled model."""
