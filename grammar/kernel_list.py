"""List the loops of grammars, so that they can be compiled before anyone waits for them."""

from __future__ import annotations

from sluicegate.grammar.automata.byte_level.character_ends import gather_ends
from sluicegate.grammar.automata.byte_level.distances import distances_of
from sluicegate.grammar.automata.byte_level.string_bodies import STRING_KERNELS
from sluicegate.grammar.automata.tables.dense import compact, pair_states
from sluicegate.grammar.automata.tables.partition import split_states
from sluicegate.grammar.parsing.loops import MASK_KERNELS, NETWORK_KERNELS
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.pruning import describe, loops_under, takes_below, walk
from sluicegate.grammar.vocabulary.trie import TRIE_KERNELS
from sluicegate.plugins.compiled.kernels import Kernel

GRAMMAR_KERNELS = [
    split_states,
    pair_states,
    compact,
    *STRING_KERNELS,
    distances_of,
    gather_ends,
    *TRIE_KERNELS,
    describe,
    walk,
    takes_below,
    loops_under,
    *(found for found in vars(kernels).values() if isinstance(found, Kernel)),
    *NETWORK_KERNELS,
    *MASK_KERNELS,
]
"""The kernels that prepare a vocabulary come first."""
