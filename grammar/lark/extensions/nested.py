"""Put the grammars of `%lark { ... }` into the one around them: each keeps its own names, and ignores what it says."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.grammar.lark.grammar import Grammar
from sluicegate.grammar.parsing.rules import Production, Symbol


def joined(outer: Grammar, inner: Mapping[str, Grammar]) -> Grammar:
    """Return one grammar in which the terminals that `inner` names are the texts of those grammars."""
    rules = _skipping(outer, "", inner, leads=True)
    lexemes, regions = dict(outer.lexemes), dict(outer.regions)
    for name, grammar in inner.items():
        prefix = f"{name}: "
        rules += _skipping(grammar, prefix, {}, leads=False)
        rules.append(Production(name, ((False, prefix + grammar.start),)))
        lexemes |= {prefix + terminal: lexeme for terminal, lexeme in grammar.lexemes.items()}
        regions |= {prefix + terminal: region for terminal, region in grammar.regions.items()}
    start = outer.start if not outer.ignored else f"{outer.start} and skipped"
    return Grammar(rules, lexemes, frozenset(), start, regions)


def _skipping(grammar: Grammar, prefix: str, inner: Mapping[str, Grammar], leads: bool) -> list[Production]:
    """Return the rules of `grammar` with `prefix` before all names, and with what is ignored written out: behind each
    terminal, and with `leads` before the whole text. Those of `inner` are rules."""
    skip: Symbol = (False, f"{prefix}skipped")

    def symbols(is_terminal: bool, name: str) -> tuple[Symbol, ...]:
        own = (is_terminal and name not in inner, name if name in inner and is_terminal else prefix + name)
        return (own, skip) if is_terminal and grammar.ignored else (own,)

    rules = [
        Production(prefix + rule.origin, tuple(s for each in rule.expansion for s in symbols(*each)))
        for rule in grammar.rules
    ]
    if grammar.ignored:
        rules.append(Production(skip[1], ()))
        rules += [Production(skip[1], (skip, (True, prefix + name))) for name in sorted(grammar.ignored)]
        if leads:
            rules.append(Production(f"{grammar.start} and skipped", (skip, (False, prefix + grammar.start))))
    return rules
