"""Load the compiled loops of rules before a clock runs."""

from __future__ import annotations

from sluicegate.grammar.parsing.following import facts_of, followers_of, least_sizes, nullable_of
from sluicegate.grammar.parsing.gathering import gather, resumed
from sluicegate.grammar.parsing.kernels import walk_known
from sluicegate.grammar.parsing.lexer_tables import fill_in, in_classes
from sluicegate.grammar.parsing.rewriting.groups import groups_of
from sluicegate.grammar.parsing.rewriting.joining import rules_of
from sluicegate.grammar.parsing.rewriting.sketches import call_networks, make_networks
from sluicegate.grammar.parsing.rewriting.subsets import add_network, group_alike
from sluicegate.grammar.parsing.walks import moved, settle, slot_of
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE
from sluicegate.plugins.compiled.kernels import Kernel

NETWORK_KERNELS: tuple[Kernel, ...] = (
    add_network,
    group_alike,
    groups_of,
    make_networks,
    call_networks,
    rules_of,
    nullable_of,
    least_sizes,
    followers_of,
    facts_of,
    fill_in,
    in_classes,
)
MASK_KERNELS: tuple[Kernel, ...] = (slot_of, moved, settle, gather, resumed, walk_known)


def load(*loops: Kernel) -> None:
    """Load or compile loops, unless somebody else does."""
    if COMPILE_MODE.builder is None and not all(loop.overloads for loop in loops):
        for loop in loops:
            loop.build()
