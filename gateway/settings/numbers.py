"""Numbers that settings of several tables take."""

from __future__ import annotations

from typing import Annotated

from sluicegate.plugins import Within

Part = Annotated[float, Within(0, 1)]
MAX_LIMIT = 10**12
"""Highest limit that is accepted: a larger one is a mistake, and exceeds what stores can add up."""
Number = Annotated[int, Within(0, MAX_LIMIT)]
Money = Annotated[float, Within(0, MAX_LIMIT)]
