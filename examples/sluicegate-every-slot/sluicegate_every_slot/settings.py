"""The table of each stage: names are the valid names, annotations the valid values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    requests: int = 1000


@dataclass(frozen=True, slots=True)
class TooLongSettings:
    characters: int = 100_000


@dataclass(frozen=True, slots=True)
class LengthSettings:
    short: str = ""
    long: str = ""
    from_characters: int = 2000


@dataclass(frozen=True, slots=True)
class NoteSettings:
    folder: str = "notes"


@dataclass(frozen=True, slots=True)
class RulesSettings:
    text: str = "Be brief."
    inner: str = "chat-template"
    """The stage that renders, and its settings."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileSettings:
    folder: str = "answers"


@dataclass(frozen=True, slots=True)
class PatternSettings:
    patterns: Mapping[str, str] = field(default_factory=dict)
    inner: str = "grammar"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeadlineSettings:
    seconds: float = 60.0
    inner: str = "engine"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineSettings:
    path: str = "requests.jsonl"
