"""What an operator may set of grammars, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate.grammar.limits import MOST_BYTES, GrammarLimits
from sluicegate.plugins.contract.disk_paths import MaybeFolder
from sluicegate.plugins.settings import Count

STAGE = "stages.constrain.grammar"


@dataclass(frozen=True, slots=True)
class GrammarSettings:
    threads: Count = 2
    """Threads that compile."""
    cache_entries: Count = 256
    """Most grammars kept; the least recently used are dropped first."""
    kept_bytes: Count = 256 << 20
    """Most bytes of memory of all kept grammars together. The usual one takes some 50 kB, so that their number bounds
    them; one schema of 8 MB, or one Lark grammar of 150 kB, takes 40 MB. Dropped ones take up to a quarter of it more,
    or 64 MiB, until they are collected."""
    cache_dir: MaybeFolder | None = None
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
