"""The limits that keep a bad schema from hurting anybody else, and a cache from filling the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sluicegate.plugins.errors import InvalidGrammar, plain
from sluicegate.plugins.settings import Count, Positive

MOST_BYTES = 256 << 20
"""Most bytes kept on disk."""


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """Each limit raises `GrammarLimit` and names itself."""

    containers: Count = 200_000
    """Objects and arrays in the schema document."""
    depth: Count = 200
    """Nesting of the schema document."""
    alternatives: Count = 64
    """Most alternatives of one value that several `anyOf`, `oneOf` and the like multiply to; beyond that the finished
    value is checked."""
    string_states: Count = 20_000
    """States of one string or regular-expression automaton."""
    characters: Count = 5_000_000
    """Most characters of a schema given as text."""
    cpu_s: Positive = 5.0
    """CPU time of one compilation, all of its automata together."""
    readings: Count = 4_000
    """Most readings of one text that are followed at the same time."""


def lowered(most: GrammarLimits, asked: Any) -> GrammarLimits:
    """Return `most` with the limits that a request asks for, none of them higher. Raises `InvalidGrammar`."""
    if not isinstance(asked, Mapping):
        raise InvalidGrammar(f"limits is {asked!r}; give names and numbers", param="limits")
    names = [each.name for each in fields(GrammarLimits)]
    for name, value in asked.items():
        if name not in names:
            raise InvalidGrammar(f"unknown limit {name!r}; the limits are {', '.join(names)}", param=f"limits.{name}")
        bound = getattr(most, name)
        kinds = int if isinstance(bound, int) else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= bound:
            what = f"limits.{name} is {value!r}; a request may lower it: a number above 0, up to {plain(bound)} here"
            raise InvalidGrammar(what, param=f"limits.{name}")
    return replace(most, **asked)
