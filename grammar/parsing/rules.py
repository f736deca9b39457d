"""Rules of a context-free grammar over lexemes, and which names derive a text, or the empty one."""

from __future__ import annotations

from typing import NamedTuple

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.token_ids import I32

Symbol = tuple[bool, str]
"""(whether it is a terminal, name)."""


class Production(NamedTuple):
    origin: str
    expansion: tuple[Symbol, ...]


class NumberedRules(NamedTuple):
    """Rules by number: terminals come first, then one that no grammar has, then names, each of which derives a text.

    `names`: of what each name is, or is a part; `origins` int32[R]; `first` int32[R + 1]: where the symbols of each
    rule begin in `symbols`; `start`: the name that whole texts derive from."""

    names: list[str]
    origins: I32
    first: I32
    symbols: I32
    start: int


def productive(rules: list[Production]) -> set[str]:
    """Return the names that derive some text."""
    return _derived(rules, [[name for is_terminal, name in rule.expansion if not is_terminal] for rule in rules])


def useful_rules(rules: list[Production], useful: set[str]) -> list[Production]:
    """Return the rules whose names are all among `useful`; most often all of them."""
    symbols = {symbol for rule in rules for symbol in rule.expansion}
    useless = {symbol for symbol in symbols if not symbol[0] and symbol[1] not in useful}
    return [rule for rule in rules if useless.isdisjoint(rule.expansion)] if useless else rules


def nullable(rules: list[Production]) -> set[str]:
    """Return the names that derive the empty text."""
    bare = [rule for rule in rules if not any(is_terminal for is_terminal, _ in rule.expansion)]
    return _derived(bare, [[name for _, name in rule.expansion] for rule in bare])


def _derived(rules: list[Production], needs: list[list[str]]) -> set[str]:
    """Return names with a rule whose needs are all among them, in time linear in the rules. A name may be needed more
    than once."""
    users: dict[str, list[int]] = {}
    for number, names in enumerate(needs):
        for name in names:
            users.setdefault(name, []).append(number)
    missing = [len(names) for names in needs]
    ready = [number for number, count in enumerate(missing) if not count]
    found: set[str] = set()
    while ready:
        tick()
        name = rules[ready.pop()].origin
        if name in found:
            continue
        found.add(name)
        for number in users.get(name, ()):
            missing[number] -= 1
            if not missing[number]:
                ready.append(number)
    return found
