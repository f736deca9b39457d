"""Grammars of texts that are no JSON."""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.grammar.blocked.watch import Screens
from sluicegate.grammar.matching.grammar import LazyGrammar
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.tape import PlainTape
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_READINGS = 256
"""Most readings of one text that are followed at the same time."""


def plain_grammar(
    vocabulary: Vocabulary, start: Callable[[], tuple[Reading, ...]], options: GrammarOptions | None
) -> LazyGrammar:
    """Make the grammar whose readings `start` makes. Raises `Unsatisfiable` where the blocklist leaves no text."""
    screens = Screens.of(options.blocked if options is not None else None, vocabulary, json=False, plain=True)
    return LazyGrammar(
        vocabulary,
        start,
        needs_text=False,
        reading_limit=_READINGS,
        tape=PlainTape,
        screens=screens,
        doubtful=screens is not None,
    )
