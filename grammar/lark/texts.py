"""Compile one regular expression or literal of a terminal, which must not depend on the text around it.

In Lark a backtracking matcher decides where a terminal ends. With greedy repetitions it may end wherever it matches;
with lazy ones, as in `common.ESCAPED_STRING`, only at its first match. The order of alternatives in a regular
expression does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.construction.table_of import table_of_tree
from sluicegate.grammar.automata.patterns.parser import parse
from sluicegate.grammar.automata.patterns.syntax import (
    Alt,
    Chars,
    EndAnchor,
    Lookaround,
    Node,
    Repeat,
    Seq,
    StartAnchor,
    WordBoundary,
    has_anchor,
)
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import WorkMeter
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lark.rewriting.source import MARK
from sluicegate.plugins.errors import UnsupportedGrammar

_FAR = 1 << 30


def texts_of(text: str, flags: str, literal: bool) -> CharDfa:
    """Compile an expression, or a literal text, under `flags` of Python's `re`."""
    if MARK in text:
        raise UnsupportedGrammar("%json can stand in a rule only, not in a terminal")
    if literal and not flags:
        return CharDfa.from_literal(text)
    body = re.escape(text) if literal else text
    return _of_expression(f"(?{flags}:{body})" if flags else body)


@remembered(512)
def _of_expression(body: str) -> CharDfa:
    tree = parse(body, "python")
    refuse_context(tree)
    dfa = CharDfa(table_of_tree(tree, True, WorkMeter()))
    kinds = set(_repetitions(tree))
    goes_on = any(accepts and row for accepts, row in zip(dfa.table.accepting, dfa.table.rows, strict=True))
    if True not in kinds or not goes_on:
        return dfa
    if False in kinds:
        raise UnsupportedGrammar(
            "lazy and greedy repetitions in one terminal, of which one match can go on into another; write what may "
            'stand there instead of a lazy repetition, such as [^"]* for .*?'
        )
    return ended_at_once(dfa)


def _repetitions(node: Node) -> Iterator[bool]:
    """Yield for every repetition of variable length whether it is lazy."""
    if isinstance(node, Repeat):
        if node.low != node.high:
            yield node.lazy
        yield from _repetitions(node.item)
    elif isinstance(node, Seq | Alt):
        for item in node.items:
            yield from _repetitions(item)


def ended_at_once(texts: CharDfa) -> CharDfa:
    """Keep the texts that do not begin with another one of them: all that lazy repetitions match."""
    table = texts.table
    rows = [{} if accepts else row for accepts, row in zip(table.accepting, table.rows, strict=True)]
    return CharDfa(minimal(Table(table.starts, table.classes, rows, table.accepting), WorkMeter()))


def refuse_context(tree: Node) -> None:
    """Raise `UnsupportedGrammar` if an anchor or lookaround of `tree` could depend on text outside a match."""
    if has_anchor(tree):
        _check(tree, 0, 0)


def _check(node: Node, before: int, after: int) -> None:
    """Refuse what looks past the edges of a match: raises `UnsupportedGrammar`. `before`, `after`: characters that
    every match has on both sides of `node`."""
    if isinstance(node, Seq):
        least = [_widths(item)[0] for item in node.items]
        for i, item in enumerate(node.items):
            _check(item, before + sum(least[:i]), after + sum(least[i + 1 :]))
    elif isinstance(node, Alt):
        for item in node.items:
            _check(item, before, after)
    elif isinstance(node, Repeat):
        _check(node.item, before, after)
    elif isinstance(node, Lookaround):
        if has_anchor(node.item) or _widths(node.item)[1] > (after if node.ahead else before):
            raise UnsupportedGrammar(f"a look{'ahead' if node.ahead else 'behind'} that can see past its end{_WHY}")
    elif (isinstance(node, StartAnchor) and not before) or (isinstance(node, EndAnchor) and not after):
        raise UnsupportedGrammar(f"an anchor at its edge{_WHY}")
    elif isinstance(node, WordBoundary) and not (before and after):
        raise UnsupportedGrammar(f"\\b or \\B at its edge{_WHY}")


_WHY = "; what stands beside a terminal is not known while it is written: say it with rules"


def _widths(node: Node) -> tuple[int, int]:
    """Return the fewest and the most characters of a match."""
    if isinstance(node, Chars):
        return 1, 1
    if isinstance(node, Seq):
        return _sum(map(_widths, node.items))
    if isinstance(node, Alt):
        widths = [_widths(item) for item in node.items]
        return min((low for low, _ in widths), default=0), max((high for _, high in widths), default=0)
    if isinstance(node, Repeat):
        low, high = _widths(node.item)
        most = _FAR if node.high is None else node.high
        return low * node.low, min(high * most, _FAR)
    return 0, 0


def _sum(widths: Iterable[tuple[int, int]]) -> tuple[int, int]:
    pairs = list(widths)
    return sum(low for low, _ in pairs), min(sum(high for _, high in pairs), _FAR)
