"""Write rules as networks: one small automaton over terminals and calls for each name that texts nest in.

A rule that recurses from the left or from the right only is a loop, and one that another begins or ends with is a part
of that one (Nederhof, 2000, on strongly regular grammars); what stands in the middle of a text of its own kind is a
call. Each automaton is made deterministic and minimal (Moore, 1956). So a chain of a dozen levels of operators becomes
a loop of one operand and one operator: a parse stands in one place where it stood in a dozen.

The networks are written as rules again, by number: `s: a t` for an edge, `s:` where a text may end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

import numpy as np

from sluicegate.grammar.parsing.rewriting.automaton import FlatRules, NetworkPool
from sluicegate.grammar.parsing.rules import Code, NumberedRules, SymbolCodes, Ways
from sluicegate.grammar.token_ids import I32


def as_networks(ways: Ways, start: Code, codes: SymbolCodes, terminals: Sequence[str]) -> NumberedRules:
    """Return rules in which `start` has the same texts. Every name of `ways` can be finished."""
    numbers = codes.numbers(terminals)
    rules = flat_rules(ways, len(numbers))
    pool = NetworkPool(rules)
    owned, bare, owners, origins, first, made = pool.rules(int(rules.places[~start]), numbers, len(terminals) + 1)
    written = [codes.name(name) for name in owned.tolist()]
    known = [written[owner] for owner in owners.tolist()]
    if len(bare):
        known += [codes.name(name) for name in bare.tolist()]
        unchanged = {name: ways[name] for name in bare.tolist()}
        origins, first, made = _with_bare(unchanged, numbers, origins, first, made)
    return NumberedRules(known, origins, first, made, int(numbers[~start]))


def flat_rules(ways: Ways, symbols: int) -> FlatRules:
    """Return rules in flat arrays. `symbols`: how many have codes."""
    names = np.array(list(ways), np.int32)
    rows = list(chain.from_iterable(ways.values()))
    places = np.zeros(symbols, np.int32)
    places[~names] = np.arange(len(names), dtype=np.int32)
    return FlatRules(
        names,
        _begins(map(len, ways.values())),
        _begins(map(len, rows)),
        np.fromiter(chain.from_iterable(rows), np.int32),
        places,
    )


def _begins(sizes: Iterable[int]) -> I32:
    """Return where each of parts in a row begins, and where the last one ends."""
    return np.fromiter(accumulate(sizes, initial=0), np.int32)


def _with_bare(ways: Ways, numbers: I32, origins: I32, first: I32, symbols: I32) -> tuple[I32, I32, I32]:
    """Add the rules of names without a network."""
    rest = [(int(numbers[~name]), way) for name, rows in ways.items() for way in dict.fromkeys(rows)]
    more = numbers[[code if code >= 0 else ~code for _, way in rest for code in way]]
    ends = int(first[-1]) + np.cumsum([len(way) for _, way in rest])
    return (
        np.concatenate([origins, np.array([origin for origin, _ in rest], np.int32)]),
        np.concatenate([first, ends]).astype(np.int32),
        np.concatenate([symbols, more]),
    )
