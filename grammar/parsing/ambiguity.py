"""Write rules that are ambiguous by themselves in another way, for the same texts.

    e: e "+" e | "-" e | e "!" | "(" e ")" | N

A text of several operators has as many parses as there are trees over them; each would be followed. The texts are those
of a chain of operands, of which each has its prefixes before it and its suffixes behind it:

    e: e "+" p | p      p: "-" p | q      q: q "!" | "(" e ")" | N

Every text of the new rules is one of the old ones, each use of an `e` having been narrowed. Every tree of the old
rules can be turned into one of the new: an operator that stands at the right edge of an operand moves to the left of
the operator above it, and a prefix or suffix goes to the operand at its edge.
"""

from __future__ import annotations

from sluicegate.grammar.parsing.rules import Production, Symbol

_MOST_INLINED = 50


def untangled(rules: list[Production]) -> list[Production]:
    """Return rules of the same names for the same texts, without those that begin and end with their own name."""
    by_origin: dict[str, list[tuple[Symbol, ...]]] = {}
    for rule in rules:
        ways = by_origin.setdefault(rule.origin, [])
        if rule.expansion not in ways:
            ways.append(rule.expansion)
    found: list[Production] = []
    for origin, ways in by_origin.items():
        found += _split(origin, _inlined(origin, ways, by_origin))
    return found


def _inlined(
    origin: str, ways: list[tuple[Symbol, ...]], by_origin: dict[str, list[tuple[Symbol, ...]]]
) -> list[tuple[Symbol, ...]]:
    """Put the rules of another name in its place where it stands alone and begins and ends with `origin`."""
    found: list[tuple[Symbol, ...]] = []
    me = (False, origin)
    for way in ways:
        inner = by_origin.get(way[0][1], []) if len(way) == 1 and not way[0][0] and way[0] != me else []
        if len(inner) <= _MOST_INLINED and any(_is_operator(me, each) for each in inner):
            found += inner
        else:
            found.append(way)
    return list(dict.fromkeys(found))


def _is_operator(me: Symbol, way: tuple[Symbol, ...]) -> bool:
    return len(way) > 1 and way[0] == me and way[-1] == me


def _split(origin: str, ways: list[tuple[Symbol, ...]]) -> list[Production]:
    me = (False, origin)
    ways = [way for way in ways if way != (me,)]
    operators = [way for way in ways if _is_operator(me, way)]
    prefixes = [way for way in ways if len(way) > 1 and way[-1] == me and way[0] != me]
    suffixes = [way for way in ways if len(way) > 1 and way[0] == me and way[-1] != me]
    if not operators and not (prefixes and suffixes):
        return [Production(origin, way) for way in ways]
    others = [way for way in ways if way not in operators and way not in prefixes and way not in suffixes]
    operand, core = (False, f"{origin} operand"), (False, f"{origin} core")
    found = [Production(origin, (*way[:-1], operand)) for way in operators]
    found.append(Production(origin, (operand,)))
    found += [Production(operand[1], (*way[:-1], operand)) for way in prefixes]
    found.append(Production(operand[1], (core,)))
    found += [Production(core[1], (core, *way[1:])) for way in suffixes]
    return found + [Production(core[1], way) for way in others]
