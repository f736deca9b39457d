"""The syntax tree of a parsed pattern. Nodes are immutable once parsed."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.grammar.automata.charsets import EVERY, Ranges


class Node:
    """A piece of a pattern."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Chars(Node):
    """One character out of a set."""

    ranges: Ranges


@dataclass(slots=True, eq=False)
class Seq(Node):
    """One after the other; without items, the empty text."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class Alt(Node):
    """One of the items; without items, nothing at all."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class Repeat(Node):
    """`low` to `high` times, no upper bound if `high` is None. `lazy`: a matcher would rather stop; the language is the
    same."""

    item: Node
    low: int
    high: int | None
    lazy: bool = False


@dataclass(slots=True, eq=False)
class Lookaround(Node):
    """Lookahead or lookbehind: consumes nothing. `position` is where it stands in the pattern."""

    item: Node
    ahead: bool
    negative: bool
    position: int


@dataclass(slots=True, eq=False)
class StartAnchor(Node):
    """Only at the very beginning of the text."""


@dataclass(slots=True, eq=False)
class EndAnchor(Node):
    """Only at the very end of the text."""


@dataclass(slots=True, eq=False)
class WordBoundary(Node):
    """`\\b`: between a character of `word` and another one or an end of the text; `negative` (`\\B`): anywhere else."""

    word: Ranges
    negative: bool
    position: int


EMPTY = Seq([])
ANYTHING = Repeat(Chars(EVERY), 0, None)  # any text at all, line breaks included


def sequence(items: list[Node]) -> Node:
    """Make a `Seq`, or return the item itself if there is just one."""
    return items[0] if len(items) == 1 else Seq(items)


def has_anchor(node: Node, kinds: tuple[type[Node], ...] = (StartAnchor, EndAnchor, WordBoundary, Lookaround)) -> bool:
    """Return whether a node of one of `kinds` occurs anywhere inside."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, (Seq, Alt)):
        return any(has_anchor(item, kinds) for item in node.items)
    if isinstance(node, (Repeat, Lookaround)):
        return has_anchor(node.item, kinds)
    return False


def is_higher(tree: Node, most: int) -> bool:
    """Return whether more than `most` nodes stand below each other, level by level: it may be too high to recurse."""
    level = [tree]
    for _ in range(most):
        level = [item for node in level for item in _below(node)]
        if not level:
            return False
    return True


def _below(node: Node) -> list[Node]:
    return node.items if isinstance(node, Seq | Alt) else [node.item] if isinstance(node, Repeat | Lookaround) else []
