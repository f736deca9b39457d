"""The grammar package's door: the stage of slot `constrain`."""

from __future__ import annotations

from sluicegate.grammar.settings import GrammarSettings
from sluicegate.plugins import Constrainer, RegistryLike
from sluicegate.plugins.settings import add_stage


def register(registry: RegistryLike) -> None:
    add_stage(registry, "constrain", "grammar", GrammarSettings, make_constrainer)


def make_constrainer(settings: GrammarSettings) -> Constrainer:
    """Make the stage. Raises `ConfigurationError` for invalid options."""
    from sluicegate.grammar.constrainer import GrammarConstrainer  # numba: only those who serve need it

    return GrammarConstrainer(settings)
