"""The door of this package: what it adds to the slots `screen` and `moderate`, and what settings each stage takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar, get_args

from sluicegate.plugins import CHANNELS, Channel, RegistryLike, Role
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.settings import add_stage, check_names, read_both
from sluicegate.safety.detection import DetectionScreen
from sluicegate.safety.detection import stage as detection
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.rails.match_rails import MatchPolicy, MatchRail, MatchScreen
from sluicegate.safety.rails.pseudonyms import Pseudonyms, Restore, Terms
from sluicegate.safety.rules.blocklist import compile_phrases
from sluicegate.safety.rules.credentials import TYPES as SECRET_TYPES
from sluicegate.safety.rules.credentials import compile_secrets
from sluicegate.safety.rules.patterns import compile_patterns
from sluicegate.safety.rules.pii import TYPES as PII_TYPES
from sluicegate.safety.rules.pii import compile_pii

Settings = Mapping[str, Any]
Action = Literal["redact", "escalate", "block"]
ROLES: tuple[Role, ...] = get_args(Role)
T = TypeVar("T")

BuiltIn = MatchScreen | Pseudonyms | DetectionScreen
"""Input rails of ours: they read every text of a request and wait for nothing."""


def is_built_in(rail: object) -> TypeGuard[BuiltIn]:
    """Whether its answers need no checking: it is ours, and no class derived from it."""
    return type(rail) in (MatchScreen, Pseudonyms, DetectionScreen)


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
    types: tuple[str, ...] = PII_TYPES


@dataclass(frozen=True, slots=True)
class SecretSettings:
    types: tuple[str, ...] = SECRET_TYPES


@dataclass(frozen=True, slots=True)
class PseudonymSettings:
    types: tuple[str, ...] = PII_TYPES
    roles: tuple[Role, ...] = ROLES
    secret: str = field(default="", repr=False)
    """Hexadecimal; none = another one with each start."""
    scope: str = "pii"
    restore: Restore = "scope"


def register(registry: RegistryLike) -> None:
    _add(registry, "blocklist", PhraseSettings, _phrases)
    _add(registry, "patterns", PatternSettings, lambda own: compile_patterns(own.patterns))
    _add(registry, "pii", PiiSettings, lambda own: compile_pii(own.types))
    _add(registry, "secrets", SecretSettings, lambda own: compile_secrets(own.types))
    add_stage(registry, "screen", "pseudonyms", PseudonymSettings, _pseudonyms)
    detection.register(registry)


def _add(registry: RegistryLike, name: str, kind: type[T], compile_rules: Callable[[T], Automaton]) -> None:
    """Register a rail of rules for streams, and one for requests."""

    def moderate(table: Settings) -> MatchRail:
        where = f"stages.moderate.{name}"
        own, common = read_both(kind, OutputSettings, table, where)
        automaton = compile_rules(own)
        return MatchRail(name, automaton, _policy(where, common, automaton), frozenset(common.channels))

    def screen(table: Settings) -> MatchScreen:
        where = f"stages.screen.{name}"
        own, common = read_both(kind, InputSettings, table, where)
        automaton = compile_rules(own)
        return MatchScreen(name, automaton, _policy(where, common, automaton), frozenset(common.roles))

    registry.add("moderate", name, moderate)
    registry.add("screen", name, screen)


def _pseudonyms(own: PseudonymSettings) -> Pseudonyms:
    try:
        secret = bytes.fromhex(own.secret) or os.urandom(32)
    except ValueError as error:
        raise ConfigurationError(
            "[stages.screen.pseudonyms] secret must be hexadecimal; `openssl rand -hex 32` makes one"
        ) from error
    terms = Terms(secret, frozenset(own.roles), own.scope, own.restore)
    return Pseudonyms("pseudonyms", compile_pii(own.types), terms)


def _policy(where: str, common: RuleSettings, automaton: Automaton) -> MatchPolicy:
    check_names(common.actions, sorted({rule.label for rule in automaton.rules}), f"{where}.actions")
    return MatchPolicy(common.action, common.actions, common.replacement)


def _phrases(own: PhraseSettings) -> Automaton:
    phrases = [*own.phrases, *(_lines(Path(own.path)) if own.path else ())]
    return compile_phrases(phrases, label=own.label, borders=own.word_borders, evasions=own.evasions)


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"blocklist: path {str(path)!r} cannot be read as UTF-8 text: {error}") from error
    return [line for line in lines if line.strip() and not line.startswith("#")]
