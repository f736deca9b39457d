"""Resolve anchors at the edges of a pattern in its syntax tree, so that no automaton has to handle them.

An unanchored search for `r` is the language of `.* r .*`; a `^` that can only come first removes the left `.*`, a `$`
the right one. Anchors anywhere else are left to the slower constructions.
"""

from __future__ import annotations

from sluicegate.grammar.automata.patterns.syntax import (
    ANYTHING,
    EMPTY,
    Alt,
    EndAnchor,
    Lookaround,
    Node,
    Seq,
    StartAnchor,
    has_anchor,
    sequence,
)


def search_tree(tree: Node) -> Node | None:
    """Return a tree without anchors for "`tree` occurs somewhere", None where that is not possible."""
    left = _open_left(tree)
    whole = _open_right(left) if left is not None else None
    return None if whole is None or has_anchor(whole) else whole


def _open_left(node: Node) -> Node | None:
    """Put `.*` before `node`, except where `^` forbids it."""
    if isinstance(node, StartAnchor):
        return EMPTY
    if not has_anchor(node, (StartAnchor, Lookaround)):
        return Seq([ANYTHING, node])
    if isinstance(node, Alt):
        return _all_branches([_open_left(item) for item in node.items])
    if isinstance(node, Seq) and node.items:
        head, *rest = node.items
        if any(has_anchor(item, (StartAnchor, Lookaround)) for item in rest):
            return None
        opened = _open_left(head)
        return None if opened is None else sequence([opened, *rest])
    return None


def _open_right(node: Node) -> Node | None:
    """Put `.*` after `node`, except where `$` forbids it."""
    if isinstance(node, EndAnchor):
        return EMPTY
    if isinstance(node, Lookaround) and node.ahead and not node.negative:
        return _open_right(node.item)  # nothing after it has to match as well
    if not has_anchor(node, (EndAnchor, Lookaround)):
        return Seq([node, ANYTHING])
    if isinstance(node, Alt):
        return _all_branches([_open_right(item) for item in node.items])
    if isinstance(node, Seq) and node.items:
        *rest, tail = node.items
        if any(has_anchor(item, (EndAnchor, Lookaround)) for item in rest):
            return None
        opened = _open_right(tail)
        return None if opened is None else sequence([*rest, opened])
    return None


def _all_branches(branches: list[Node | None]) -> Node | None:
    whole = [branch for branch in branches if branch is not None]
    return Alt(whole) if len(whole) == len(branches) else None
