"""What an operator may set of rails, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sluicegate.plugins import CHANNELS, JudgedChannel, Role

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
    """What is done about a match."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """The same by label."""
    replacement: str = "[REDACTED]"
    """`{label}` stands for the label."""


@dataclass(frozen=True, slots=True)
class OutputSettings(RuleSettings):
    channels: tuple[JudgedChannel, ...] = CHANNELS
    """Parts of an answer that are looked at."""


@dataclass(frozen=True, slots=True)
class InputSettings(RuleSettings):
    roles: tuple[Role, ...] = ROLES
    """Whose messages are looked at."""


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    phrases: tuple[str, ...] = ()
    """What is looked for, whatever its case."""
    path: str = ""
    """A file with more of them: UTF-8, one a line, `#` begins a comment line."""
    word_borders: bool = True
    """Only as whole words: `ass` is not found in `class`."""
    evasions: bool = True
    """Also with look-alike letters, and with signs between the letters."""
    label: str = "blocklist"
    """What a match is called in verdicts."""


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
    """What is done about a call whose target came from an untrusted text."""
    trusted_tools: tuple[str, ...] = ()
    """Whose results count as the user's own words."""
    exempt: tuple[str, ...] = ()
    """Tools that may be called with anything."""
    arguments: tuple[str, ...] = ()
    """Words of arguments' names that say where something goes, besides those that are known."""
    harmless_arguments: tuple[str, ...] = TEXT_ARGUMENTS
    """Names of arguments that hold texts, whatever their shape."""
    document_names: tuple[str, ...] = ("document",)
    """Names of messages that hold documents."""
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    """Tags around documents in messages."""


@dataclass(frozen=True, slots=True)
class PseudonymSettings:
    types: tuple[str, ...] | None = None
    """Kinds of personal data that get pseudonyms; none = all."""
    roles: tuple[Role, ...] = ROLES
    """Whose messages are looked at."""
    secret: str = field(default="", repr=False)
    """Hexadecimal; none = another one with each start."""
    scope: str = "pii"
    """What a key needs among its scopes to see the real values again."""
    restore: Literal["scope", "always", "never"] = "scope"
    """Who gets real values in answers: keys with the scope, all, nobody."""
