"""What an operator may set of grammars, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate.grammar.limits import MOST_BYTES, GrammarLimits
from sluicegate.plugins.settings import Count

STAGE = "stages.constrain.grammar"


@dataclass(frozen=True, slots=True)
class GrammarSettings:
    threads: Count = 2
    """That compile."""
    cache_entries: Count = 256
    """Grammars that are kept, those used last."""
    cache_dir: str | None = None
    """Where what was worked out for a vocabulary is kept for the next start (see `disk`); "" = nowhere."""
    cache_bytes: Count = MOST_BYTES
    """Memory that kept grammars may take."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of `GrammarOptions`, which a request may change."""
    limits: GrammarLimits = GrammarLimits()  # noqa: RUF009 - frozen
    """Which no request may raise."""
    blocklist: tuple[str, ...] = ()
    """Phrases that no answer may hold, whatever the request says."""
    blocklist_patterns: tuple[str, ...] = ()
    """Regular expressions that no answer may match anywhere."""
