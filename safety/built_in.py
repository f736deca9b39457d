"""Which input rails are ours."""

from __future__ import annotations

from typing import TypeGuard

from sluicegate.safety.detection import DetectionScreen
from sluicegate.safety.rails.match_rails import MatchScreen
from sluicegate.safety.rails.pseudonyms import Pseudonyms

BuiltIn = MatchScreen | Pseudonyms | DetectionScreen
"""They read every text of a request and wait for nothing."""


def is_built_in(rail: object) -> TypeGuard[BuiltIn]:
    """Return whether the answers of `rail` need no checking: it is ours, and no class derived from it."""
    return type(rail) in (MatchScreen, Pseudonyms, DetectionScreen)
