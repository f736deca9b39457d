"""Compile a blocklist of phrases, which are found however they are written.

Matching ignores case, accents and other marks, invisible characters, the length and kind of white space (line breaks,
too) and the script of look-alike letters; a phrase begins and ends at a word border. Phrases of six letters or more are
also found with digits for letters, with emphasis marks inside, and with all letters spaced out.

Not covered: other words for the same thing, inflected forms, spelling mistakes, hyphenation at a line's end, phrases
across two JSON strings, letters spelled by percent signs, HTML entities or base64 or parted by tags and links, and
look-alikes beyond `confusables.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.matching.nfa import Nfa, Rule

MAX_PHRASES = 100_000


def compile_phrases(
    phrases: Iterable[str], *, label: str = "blocklist", borders: bool = True, evasions: bool = True
) -> Automaton:
    """Compile phrases to one automaton. Raises `ConfigurationError` for a phrase without visible characters, for none
    at all or for more than `MAX_PHRASES`."""
    nfa = Nfa()
    rule = nfa.add_rule(Rule(label))
    count = 0
    for phrase in phrases:
        nfa.add_phrase(rule, phrase, borders=borders, evasions=evasions)
        count += 1
    if not 0 < count <= MAX_PHRASES:
        raise ConfigurationError(f"a blocklist needs 1 to {MAX_PHRASES} phrases, found {count}")
    return Automaton(nfa, text.wide)
