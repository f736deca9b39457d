"""Compile the text of a pattern to its table, by the cheapest exact construction."""

from __future__ import annotations

from sluicegate.grammar.automata.construction.lookaround import search_table
from sluicegate.grammar.automata.construction.subset import compile_tree
from sluicegate.grammar.automata.patterns.anchors import search_tree
from sluicegate.grammar.automata.patterns.parser import Dialect, parse
from sluicegate.grammar.automata.patterns.syntax import (
    ANYTHING,
    EndAnchor,
    Lookaround,
    Node,
    Seq,
    StartAnchor,
    has_anchor,
    sequence,
)
from sluicegate.grammar.automata.tables import algebra
from sluicegate.grammar.automata.tables.table import Table
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.grammar.budget.remembered import remembered


@remembered(512)
def compile_pattern(pattern: str, dialect: Dialect, anchored: bool, ignore_case: bool, budget: Budget) -> Table:
    """Return the canonical table; see `CharDfa.from_pattern`."""
    meter = WorkMeter(budget)
    return table_of_tree(parse(pattern, dialect, ignore_case), anchored, meter)


def table_of_tree(tree: Node, anchored: bool, meter: WorkMeter) -> Table:
    """Return the canonical table of the texts in which `tree` is found; with `anchored`, of those that it matches."""
    if anchored:
        tree = Seq([StartAnchor(), tree, EndAnchor()])
    plain = search_tree(tree)
    if plain is not None:
        return compile_tree(plain, meter)
    if not has_anchor(tree, (Lookaround,)):
        return compile_tree(Seq([ANYTHING, tree, ANYTHING]), meter, anchored=True)
    led = _leading_conditions(tree)
    return search_table(tree, meter) if led is None else _intersect_conditions(*led, meter)


def _leading_conditions(tree: Node) -> tuple[list[Lookaround], Node] | None:
    """Split `^(?=a)(?!b)rest`, the usual form of password rules, into its lookaheads and `^rest`; None if it has
    another form."""
    if not (isinstance(tree, Seq) and tree.items and isinstance(tree.items[0], StartAnchor)):
        return None
    looks = []
    for item in tree.items[1:]:
        if not (isinstance(item, Lookaround) and item.ahead):
            break
        looks.append(item)
    return (looks, sequence([StartAnchor(), *tree.items[1 + len(looks) :]])) if looks else None


def _intersect_conditions(looks: list[Lookaround], rest: Node, meter: WorkMeter) -> Table:
    """Intersect the languages of the lookaheads: at the beginning of a text, each applies to the whole text."""
    whole = table_of_tree(rest, False, meter)
    for look in looks:
        condition = table_of_tree(Seq([StartAnchor(), look.item]), False, meter)
        meter.renew(wide=True)
        combine = algebra.difference if look.negative else algebra.intersection
        whole = combine(whole, condition, meter)
        meter.result(len(whole.rows))
    return whole
