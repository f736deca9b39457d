"""The door of this package: what it adds to the slots `screen` and `moderate`, and what settings each stage takes.

Every stage: `action` (`redact`, `escalate` or `block`), `actions` (the same by label), `replacement` (`{label}` stands
for the label). In `moderate`: `channels`. In `screen`: `roles`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, cast

from sluicegate.plugins.contract import CHANNELS, Channel, RegistryLike, StageFactory
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection import DetectionScreen
from sluicegate.safety.detection import stage as detection
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.rails.match_rails import MatchRail, MatchScreen, Policy
from sluicegate.safety.rails.pseudonyms import Pseudonyms, Restore, Terms
from sluicegate.safety.rules.blocklist import compile_phrases
from sluicegate.safety.rules.credentials import TYPES as SECRET_TYPES
from sluicegate.safety.rules.credentials import compile_secrets
from sluicegate.safety.rules.patterns import compile_patterns
from sluicegate.safety.rules.pii import TYPES as PII_TYPES
from sluicegate.safety.rules.pii import compile_pii
from sluicegate.safety.settings import ACTIONS, ROLES, check_keys, flag, one_of, some_of, strings, table, text

Settings = Mapping[str, Any]
Compile = Callable[[str, Settings], Automaton]

BuiltIn = MatchScreen | Pseudonyms | DetectionScreen
"""Input rails of ours: they read every text of a request and wait for nothing."""
_COMMON = ("action", "actions", "replacement")


def is_built_in(rail: object) -> TypeGuard[BuiltIn]:
    """Whether its answers need no checking: it is ours, and no class derived from it."""
    return type(rail) in (MatchScreen, Pseudonyms, DetectionScreen)


def register(registry: RegistryLike) -> None:
    for name, (compile_rules, keys) in _BUILT_IN.items():
        registry.add("moderate", name, _moderate(name, compile_rules, keys))
        registry.add("screen", name, _screen(name, compile_rules, keys))
    registry.add("screen", "pseudonyms", _pseudonyms)
    detection.register(registry)


def _moderate(name: str, compile_rules: Compile, keys: tuple[str, ...]) -> StageFactory:
    def build(settings: Settings) -> MatchRail:
        stage = f"moderate.{name}"
        check_keys(stage, settings, (*keys, *_COMMON, "channels"))
        channels = some_of(stage, "channels", settings.get("channels", CHANNELS), CHANNELS)
        automaton = compile_rules(stage, settings)
        return MatchRail(
            name, automaton, _policy(stage, settings, automaton), cast(frozenset[Channel], frozenset(channels))
        )

    return build


def _screen(name: str, compile_rules: Compile, keys: tuple[str, ...]) -> StageFactory:
    def build(settings: Settings) -> MatchScreen:
        stage = f"screen.{name}"
        check_keys(stage, settings, (*keys, *_COMMON, "roles"))
        roles = some_of(stage, "roles", settings.get("roles", ROLES), ROLES)
        automaton = compile_rules(stage, settings)
        return MatchScreen(name, automaton, _policy(stage, settings, automaton), frozenset(roles))

    return build


def _pseudonyms(settings: Settings) -> Pseudonyms:
    stage = "screen.pseudonyms"
    check_keys(stage, settings, ("types", "roles", "secret", "scope", "restore"))
    roles = some_of(stage, "roles", settings.get("roles", ROLES), ROLES)
    restore = one_of(stage, "restore", settings.get("restore", "scope"), ("scope", "always", "never"))
    try:
        secret = bytes.fromhex(text(stage, "secret", settings.get("secret", ""))) or os.urandom(32)
    except ValueError as error:
        raise ConfigurationError(f"{stage}: secret must be hexadecimal; `openssl rand -hex 32` makes one") from error
    terms = Terms(secret, frozenset(roles), text(stage, "scope", settings.get("scope", "pii")), cast(Restore, restore))
    return Pseudonyms("pseudonyms", _pii(stage, settings), terms)


def _policy(stage: str, settings: Settings, automaton: Automaton) -> Policy:
    labels = {rule.label for rule in automaton.rules}
    actions = table(stage, "actions", settings.get("actions", {}))
    for label, action in actions.items():
        one_of(stage, "actions", label, sorted(labels))
        one_of(stage, f"actions.{label}", action, ACTIONS)
    return Policy(
        one_of(stage, "action", settings.get("action", "redact"), ACTIONS),
        dict(actions),
        text(stage, "replacement", settings.get("replacement", "[REDACTED]")),
    )


def _phrases(stage: str, settings: Settings) -> Automaton:
    """`phrases`, and those of the file `path` (UTF-8, one a line, `#` begins a comment line)."""
    phrases = list(strings(stage, "phrases", settings.get("phrases", ())))
    if "path" in settings:
        phrases += _lines(stage, Path(text(stage, "path", settings["path"])))
    borders = flag(stage, "word_borders", settings.get("word_borders", True))
    evasions = flag(stage, "evasions", settings.get("evasions", True))
    label = text(stage, "label", settings.get("label", "blocklist"))
    return compile_phrases(phrases, label=label, borders=borders, evasions=evasions)


def _lines(stage: str, path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{stage}: path {str(path)!r} cannot be read as UTF-8 text: {error}") from error
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _pii(stage: str, settings: Settings) -> Automaton:
    return compile_pii(strings(stage, "types", settings.get("types", PII_TYPES)))


def _secrets(stage: str, settings: Settings) -> Automaton:
    return compile_secrets(strings(stage, "types", settings.get("types", SECRET_TYPES)))


def _patterns(stage: str, settings: Settings) -> Automaton:
    patterns = table(stage, "patterns", settings.get("patterns", {}))
    return compile_patterns({label: text(stage, f"patterns.{label}", p) for label, p in patterns.items()})


_BUILT_IN: dict[str, tuple[Compile, tuple[str, ...]]] = {
    "blocklist": (_phrases, ("phrases", "path", "word_borders", "evasions", "label")),
    "patterns": (_patterns, ("patterns",)),
    "pii": (_pii, ("types",)),
    "secrets": (_secrets, ("types",)),
}
