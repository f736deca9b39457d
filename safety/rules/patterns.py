"""Compile the operator's own regular expressions, in the subset that `safety.matching.regex` parses; matching takes
linear time whatever the pattern.

Not covered: anything that is not regular (look-around, backreferences). A pattern that can begin anywhere and has no
end, such as `.*x`, holds the stream until the window's limit blocks it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.matching.nfa import Nfa, Rule


def compile_patterns(patterns: Mapping[str, str]) -> Automaton:
    """Compile patterns by label. Raises `ConfigurationError` that names the label and points at the place."""
    if not patterns:
        raise ConfigurationError('no patterns are given; list at least one as label = "pattern"')
    nfa = Nfa()
    for label, pattern in patterns.items():
        try:
            nfa.add_pattern(nfa.add_rule(Rule(label)), pattern)
        except ConfigurationError as error:
            raise ConfigurationError(f"pattern {label!r}: {error.message}") from error
    return Automaton(nfa, text.narrow)
