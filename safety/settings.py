"""What an operator may set of rails, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sluicegate.plugins import CHANNELS, Channel, Role

Action = Literal["redact", "escalate", "block"]
ROLES: tuple[Role, ...] = get_args(Role)
TEXT_ARGUMENTS = (
    *("subject", "title", "body", "text", "message", "content", "summary", "description", "note", "notes"),
    *("comment", "reason", "caption", "question"),
)


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What to do about a match; every stage of rules has these."""

    action: Action = "redact"
    actions: Mapping[str, Action] = field(default_factory=dict)
    """The same by label."""
    replacement: str = "[REDACTED]"
    """`{label}` stands for the label."""


@dataclass(frozen=True, slots=True)
class OutputSettings(RuleSettings):
    channels: tuple[Channel, ...] = CHANNELS


@dataclass(frozen=True, slots=True)
class InputSettings(RuleSettings):
    roles: tuple[Role, ...] = ROLES


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    phrases: tuple[str, ...] = ()
    path: str = ""
    """A file with more of them: UTF-8, one a line, `#` begins a comment line."""
    word_borders: bool = True
    evasions: bool = True
    label: str = "blocklist"


@dataclass(frozen=True, slots=True)
class PatternSettings:
    patterns: Mapping[str, str] = field(default_factory=dict)
    """By label."""


@dataclass(frozen=True, slots=True)
class PiiSettings:
    types: tuple[str, ...] | None = None
    """None = all."""


@dataclass(frozen=True, slots=True)
class SecretSettings:
    types: tuple[str, ...] | None = None
    """None = all."""


@dataclass(frozen=True, slots=True)
class ProvenanceSettings:
    """Names of tools may hold `*`."""

    action: Literal["block", "escalate"] = "block"
    trusted_tools: tuple[str, ...] = ()
    """Whose results count as the user's own words."""
    exempt: tuple[str, ...] = ()
    """Tools that may be called with anything."""
    arguments: tuple[str, ...] = ()
    """Words of arguments' names that say where something goes, besides those that are known."""
    harmless_arguments: tuple[str, ...] = TEXT_ARGUMENTS
    """Names of arguments that hold texts, whatever their shape."""
    document_names: tuple[str, ...] = ("document",)
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")


@dataclass(frozen=True, slots=True)
class PseudonymSettings:
    types: tuple[str, ...] | None = None
    roles: tuple[Role, ...] = ROLES
    secret: str = field(default="", repr=False)
    """Hexadecimal; none = another one with each start."""
    scope: str = "pii"
    restore: Literal["scope", "always", "never"] = "scope"
