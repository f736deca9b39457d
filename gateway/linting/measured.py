"""What each advice brought on the bundled model, as `python -m benchmarks.values --variants all` printed it.

The model is very small: where it gains, larger ones mostly gain less; where it does not, that says little about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WEIGHTS = "05bc8f2648dea2f7"
"""Version of the bundled model that was asked, as of commit c28a57e6."""


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
    "reasons-first": Gain(339, 0.791, 0.817, -0.003, 0.058),
    "enum": Gain(94, 0.372, 0.819, 0.347, 0.538),
    "description": Gain(130, 0.831, 0.838, -0.016, 0.037),
    "plain-keys": Gain(336, 0.47, 0.818, 0.287, 0.413),
    "abbreviations": Gain(336, 0.497, 0.818, 0.258, 0.384),
    "date-format": Gain(91, 0.352, 0.923, 0.473, 0.674),
    "nullable": Gain(308, 0.519, 0.633, 0.039, 0.191),
    "flat": Gain(336, 0.815, 0.818, -0.017, 0.026),
    "fewer-properties": Gain(226, 0.788, 0.788, -0.027, 0.027),
    "one-type": Gain(119, 0.891, 0.882, -0.041, 0.017),
    "closed": Gain(339, 0.823, 0.823, 0.0, 0.0),
    "max-length": Gain(196, 0.796, 0.796, 0.0, 0.0),
    "number-bounds": Gain(119, 0.882, 0.882, 0.0, 0.0),
    "max-items": Gain(94, 0.681, 0.681, 0.0, 0.0),
}
"""By name of the rule. A rule without an entry concerns cost or certainty, or what the bundled model cannot show."""
