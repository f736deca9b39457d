"""Build match rails from their settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.settings import check_names, read_both
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.provenance.rail import ProvenanceRail
from sluicegate.safety.rails.match_rails import MatchPolicy, MatchRail, MatchScreen
from sluicegate.safety.rails.pseudonyms import PseudonymPolicy, Pseudonyms
from sluicegate.safety.rules import credentials, pii
from sluicegate.safety.rules.blocklist import compile_phrases
from sluicegate.safety.rules.patterns import compile_patterns
from sluicegate.safety.settings import (
    InputSettings,
    OutputSettings,
    PatternSettings,
    PhraseSettings,
    PiiSettings,
    ProvenanceSettings,
    PseudonymSettings,
    RuleSettings,
    SecretSettings,
)

Table = Mapping[str, Any]


def moderate(name: str, table: Table) -> MatchRail:
    """Build an output rail from rules."""
    where = f"stages.moderate.{name}"
    kind, compile_rules = _RULES[name]
    own, common = read_both(kind, OutputSettings, table, where)
    automaton = compile_rules(own)
    return MatchRail(name, automaton, _policy(where, common, automaton), frozenset(common.channels))


def screen(name: str, table: Table) -> MatchScreen:
    """Build an input rail from rules."""
    where = f"stages.screen.{name}"
    kind, compile_rules = _RULES[name]
    own, common = read_both(kind, InputSettings, table, where)
    automaton = compile_rules(own)
    return MatchScreen(name, automaton, _policy(where, common, automaton), frozenset(common.roles))


def provenance(own: ProvenanceSettings) -> ProvenanceRail:
    return ProvenanceRail(own)


def pseudonyms(own: PseudonymSettings) -> Pseudonyms:
    try:
        secret = bytes.fromhex(own.secret) or os.urandom(32)
    except ValueError as error:
        raise ConfigurationError(
            "[stages.screen.pseudonyms] secret must be hexadecimal; `openssl rand -hex 32` makes one"
        ) from error
    terms = PseudonymPolicy(secret, frozenset(own.roles), own.scope, own.restore)
    return Pseudonyms("pseudonyms", _pii(own), terms)


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


def _pii(own: PiiSettings | PseudonymSettings) -> Automaton:
    return pii.compile_pii(pii.TYPES if own.types is None else own.types)


def _secrets(own: SecretSettings) -> Automaton:
    return credentials.compile_secrets(credentials.TYPES if own.types is None else own.types)


def _patterns(own: PatternSettings) -> Automaton:
    return compile_patterns(own.patterns)


_RULES: Mapping[str, tuple[type[Any], Callable[[Any], Automaton]]] = {
    "blocklist": (PhraseSettings, _phrases),
    "patterns": (PatternSettings, _patterns),
    "pii": (PiiSettings, _pii),
    "secrets": (SecretSettings, _secrets),
}
