"""Define the settings of rails and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sluicegate.plugins import CHANNELS, JudgedChannel, Role
from sluicegate.plugins.contract.disk_paths import ReadFile

Action = Literal["redact", "escalate", "block"]
ROLES: tuple[Role, ...] = get_args(Role)
TEXT_ARGUMENTS = (
    *("subject", "title", "body", "text", "message", "content", "summary", "description", "note", "notes"),
    *("comment", "reason", "caption", "question"),
)


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The action on a match; every stage of rules has these."""

    action: Action = "redact"
    """The action on a match."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Other actions by label."""
    replacement: str = "[REDACTED]"
    """`{label}` stands for the label."""


@dataclass(frozen=True, slots=True)
class OutputSettings(RuleSettings):
    channels: tuple[JudgedChannel, ...] = CHANNELS
    """Parts of an answer that are read."""


@dataclass(frozen=True, slots=True)
class InputSettings(RuleSettings):
    roles: tuple[Role, ...] = ROLES
    """Whose messages are read."""


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    phrases: tuple[str, ...] = ()
    """Phrases to find, whatever their case."""
    path: ReadFile = ""
    """A file with more phrases: UTF-8, one a line, `#` begins a comment line."""
    word_borders: bool = True
    """Find whole words only: `ass` is not found in `class`."""
    evasions: bool = True
    """Find phrases with look-alike letters and with signs between the letters, too."""
    label: str = "blocklist"
    """The name of a match in verdicts."""


@dataclass(frozen=True, slots=True)
class PatternSettings:
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions by label."""


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
    """Settings of `provenance`. Names of tools may hold `*`."""

    action: Literal["block", "escalate"] = "block"
    """The action on a call whose target came from an untrusted text."""
    trusted_tools: tuple[str, ...] = ()
    """Tools whose results count as the user's own words."""
    exempt: tuple[str, ...] = ()
    """Tools that may be called with any target."""
    arguments: tuple[str, ...] = ()
    """More words that mark an argument as a target when they occur in its name."""
    harmless_arguments: tuple[str, ...] = TEXT_ARGUMENTS
    """Names of arguments that are never targets, whatever their value looks like."""
    document_names: tuple[str, ...] = ("document",)
    """Values of a message's `name` that mark it as a document."""
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    """Tags around documents in messages."""


@dataclass(frozen=True, slots=True)
class PseudonymSettings:
    types: tuple[str, ...] | None = None
    """Kinds of personal data that get pseudonyms; none = all."""
    roles: tuple[Role, ...] = ROLES
    """Whose messages are read."""
    secret: str = field(default="", repr=False)
    """Key of the digests, in hexadecimal; none = a new one at each start."""
    scope: str = "pii"
    """The scope with which a key sees the real values in answers."""
    restore: Literal["scope", "always", "never"] = "scope"
    """Who sees real values in answers: keys with the scope, all, or nobody."""
