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
    """Threads that compile."""
    cache_entries: Count = 256
    """Most grammars kept, of 256 MiB together; the least recently used are dropped first."""
    cache_dir: str | None = None
    """Folder for what was computed for a vocabulary, kept for the next start; "" = none."""
    cache_bytes: Count = MOST_BYTES
    """Most bytes of the files in that folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of `GrammarOptions`, which a request may override."""
    limits: GrammarLimits = GrammarLimits()  # noqa: RUF009 - frozen
    """Limits that no request may raise."""
    blocklist: tuple[str, ...] = ()
    """Phrases that no answer may contain, whatever the request says."""
    blocklist_patterns: tuple[str, ...] = ()
    """Regular expressions that no answer may match anywhere."""
