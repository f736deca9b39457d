"""Rules of a context-free grammar over lexemes, and which names derive a text, or the empty one."""

from __future__ import annotations

from typing import NamedTuple

from sluicegate.grammar.budget.meter import tick

Symbol = tuple[bool, str]
"""(is it a terminal, name)."""
STATE = " state "
"""Between the name of a rule and the number of a state of its network, which is a rule of its own."""


class Production(NamedTuple):
    origin: str
    expansion: tuple[Symbol, ...]


def productive(rules: list[Production]) -> set[str]:
    """Return the names that derive some text."""
    return _derived(rules, [{name for is_terminal, name in rule.expansion if not is_terminal} for rule in rules])


def all_useful(rule: Production, useful: set[str]) -> bool:
    return all(is_terminal or name in useful for is_terminal, name in rule.expansion)


def nullable(rules: list[Production]) -> set[str]:
    """Return the names that derive the empty text."""
    bare = [rule for rule in rules if not any(is_terminal for is_terminal, _ in rule.expansion)]
    return _derived(bare, [{name for _, name in rule.expansion} for rule in bare])


def _derived(rules: list[Production], needs: list[set[str]]) -> set[str]:
    """Return names with a rule whose needs are all among them, in time linear in the rules."""
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
