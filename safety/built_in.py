"""Recognise the built-in input rails."""

from __future__ import annotations

from typing import TypeGuard

from sluicegate.safety.detection import DetectionScreen
from sluicegate.safety.rails.match_rails import MatchScreen
from sluicegate.safety.rails.pseudonyms import Pseudonyms

BuiltIn = MatchScreen | Pseudonyms | DetectionScreen
"""Input rails that read every text of a request and never suspend."""


def reads_borders(rail: object) -> TypeGuard[MatchScreen]:
    """Return whether `rail` can search across the borders between texts."""
    return type(rail) is MatchScreen


def is_built_in(rail: object) -> TypeGuard[BuiltIn]:
    """Return whether `rail` is exactly a built-in class, so that its answers need no checking; a subclass is not."""
    return type(rail) in (MatchScreen, Pseudonyms, DetectionScreen)
