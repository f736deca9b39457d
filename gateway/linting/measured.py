"""What each advice brought on the bundled model, as `python -m benchmarks.values --variants all` printed it.

The model is very small: where it gains, larger ones mostly gain less; where it does not, that says little about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WEIGHTS = "adead70052ebea91"
"""Version of the bundled model that was asked, as of commit aa22c7f."""


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
    "reasons-first": Gain(345, 0.704, 0.71, -0.014, 0.026),
    "enum": Gain(89, 0.517, 0.82, 0.211, 0.4),
    "description": Gain(133, 0.714, 0.767, 0.017, 0.092),
    "plain-keys": Gain(341, 0.323, 0.695, 0.309, 0.437),
    "abbreviations": Gain(341, 0.422, 0.695, 0.21, 0.338),
    "date-format": Gain(94, 0.415, 0.862, 0.347, 0.543),
    "nullable": Gain(362, 0.486, 0.63, 0.086, 0.201),
    "flat": Gain(341, 0.692, 0.695, -0.011, 0.018),
    "fewer-properties": Gain(216, 0.736, 0.736, -0.032, 0.028),
    "one-type": Gain(119, 0.824, 0.815, -0.036, 0.017),
    "closed": Gain(345, 0.722, 0.722, 0.0, 0.0),
    "max-length": Gain(172, 0.657, 0.657, 0.0, 0.0),
    "number-bounds": Gain(119, 0.815, 0.815, 0.0, 0.0),
    "max-items": Gain(86, 0.547, 0.547, 0.0, 0.0),
}
"""By name of the rule. A rule without an entry concerns cost or certainty, or what the bundled model cannot show."""
