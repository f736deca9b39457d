"""A blocklist of phrases and patterns, and what it holds of whole texts."""

from __future__ import annotations

from functools import lru_cache

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.blocked.language.fold import BORDER, SPACE, symbols_of
from sluicegate.grammar.blocked.language.phrases import Phrases
from sluicegate.grammar.blocked.language.product import Classes, without_phrases
from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar

MOST_PHRASES = 20_000
MOST_CHARACTERS = 1_000


class Blocklist:
    """`phrases` are found as `fold` says, `patterns` (Python's dialect) in the text as it is. Immutable."""

    def __init__(self, phrases: tuple[str, ...], patterns: tuple[str, ...]) -> None:
        if len(phrases) > MOST_PHRASES:
            raise GrammarLimit(f"a blocklist of {len(phrases)} phrases; at most {MOST_PHRASES}", param="blocklist")
        for phrase in phrases:
            if not isinstance(phrase, str) or len(phrase) > MOST_CHARACTERS or not symbols_of(phrase)[0].strip():
                raise InvalidGrammar(
                    f"{str(phrase)[:40]!r} is no phrase of 1 to {MOST_CHARACTERS} visible characters", param="blocklist"
                )
        if not all(isinstance(pattern, str) for pattern in patterns):
            raise InvalidGrammar("patterns are texts", param="blocklist_patterns")
        self.machine = Phrases(phrases) if phrases else None
        self._least = min((len(symbols_of(p, SPACE)[0].rstrip(" ").replace(BORDER, "")) for p in phrases), default=0)
        self.patterns = patterns
        _ = self.texts

    @cached_property
    def texts(self) -> CharDfa | None:
        """Return the texts without the patterns; None where there are no patterns."""
        return _without(self.patterns) if self.patterns else None

    @cached_property
    def _classes(self) -> Classes:
        assert self.machine is not None
        return Classes(self.machine)

    def prepare(self) -> None:
        """Compute the automata that `without` needs, once (a quarter of a second)."""
        if self.machine is not None:
            _ = self._classes

    def without(self, texts: CharDfa, least: bool = False, most: bool = False) -> CharDfa:
        """Return the texts that hold nothing blocked, or a superset of which masks alone can keep out what is blocked:
        every text without it so far can go on.

        `least`, `most`: their length is bounded besides. Raises `GrammarLimit` where that takes too many states.
        """
        found = texts if self.texts is None else texts.intersection(self.texts)
        return found if self.machine is None or found.is_empty() else self._without(found, least, most)

    @lru_cache(maxsize=500)  # noqa: B019  # blocklists are few, and kept anyway
    def _without(self, texts: CharDfa, least: bool, most: bool) -> CharDfa:
        return without_phrases(texts, self._classes, least, most)

    def holds(self, text: str) -> bool:
        """Return whether a phrase or a pattern is in `text`."""
        short = len(text) < self._least and text.isascii()  # other characters may be spelled by several symbols
        if not short and self.machine is not None and self.machine.step(0, symbols_of(text, SPACE)[0]) == Phrases.FOUND:
            return True
        return self.texts is not None and not self.texts.accepts(text)


@lru_cache(maxsize=32)
def blocklist(phrases: tuple[str, ...], patterns: tuple[str, ...]) -> Blocklist | None:
    """Return the same object for the same lists; None for empty ones. Raises a `GrammarError`."""
    return Blocklist(phrases, patterns) if phrases or patterns else None


def _without(patterns: tuple[str, ...]) -> CharDfa:
    """Accept texts in which none of `patterns` (Python's dialect) is found. Raises a `GrammarError`."""
    found = CharDfa.any_string()
    for pattern in patterns:
        try:
            held = CharDfa.from_pattern(pattern, dialect="python")
        except GrammarError as error:
            raise error.about("blocklist_patterns") from error
        if held.accepts(""):
            raise InvalidGrammar(f"the pattern {pattern!r} is found in every text", param="blocklist_patterns")
        found = found.difference(held)
    return found
