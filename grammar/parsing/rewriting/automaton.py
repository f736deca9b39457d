"""Small automata over the symbols of a grammar, deterministic and minimal, in flat tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.parsing.rewriting.groups import groups_of
from sluicegate.grammar.parsing.rewriting.joining import rules_of
from sluicegate.grammar.parsing.rewriting.sketches import (
    DONE,
    N_CALLED,
    N_PENDING,
    N_STATE,
    STEPS,
    call_networks,
    make_networks,
)
from sluicegate.grammar.parsing.rewriting.sketching import NONE
from sluicegate.grammar.parsing.rewriting.subsets import NO_ROOM
from sluicegate.grammar.token_ids import I32
from sluicegate.plugins.compiled.kernels import Kernel

MOST_STATES = 400
_MOST_STEPS = 4_000_000
_STEPS_A_RUN = 50_000
"""Steps after which a compiled loop pauses for a check of the clock."""
_STEPS_A_CHARGE = 200


class FlatRules(NamedTuple):
    """Rules in flat arrays, see `groups_of`. `codes` int32[N]: by name."""

    codes: I32
    way_first: I32
    row_first: I32
    symbols: I32
    places: I32


class NetworkPool:
    """The automata of all names of some rules, in flat tables. `numbers` int32[N]: that of each name, or why it has
    none, see `sketches`.

    Network n has the states `begins[n]` to `begins[n + 1]`; texts begin in the first of them. `first` int32[S + 1]:
    where the edges of each state begin, in the order of their symbols; `symbols`, `targets` int32[E], targets within
    the network; `finals` bool[S]: a text may end."""

    def __init__(self, rules: FlatRules) -> None:
        self._begins = np.zeros(1 << 8, np.int32)
        self._first = np.empty(1 << 12, np.int32)
        self._symbols = np.empty(1 << 14, np.int32)
        self._targets = np.empty(1 << 14, np.int32)
        self._finals = np.empty(1 << 12, np.bool_)
        self._counts = np.zeros(4, np.int64)
        self._codes = rules.codes
        self.numbers = np.full(len(rules.codes), NONE, np.int32)
        self._state = np.zeros(N_STATE, np.int64)
        order, group_first, *groups = groups_of(*rules[1:])
        self._rules = (order, group_first, *rules, self.numbers, np.zeros(len(rules.codes), np.int32), *groups)
        self._run(make_networks)

    def _run(self, loop: Kernel, *room: np.ndarray) -> None:
        """Run a loop to its end, and look at the clock between its parts."""
        while True:
            found = int(loop(
                *self._rules, *room, self._state, _STEPS_A_RUN, MOST_STATES, _MOST_STEPS, self._begins, self._first,
                self._symbols, self._targets, self._finals, self._counts,
            ))  # fmt: skip
            charge(int(self._state[STEPS]) / _STEPS_A_CHARGE)
            if found == DONE:
                return
            look()
            self._state[STEPS] = 0
            if found == NO_ROOM:
                self._grow()

    def _grow(self) -> None:
        for name in ("_begins", "_first", "_symbols", "_targets", "_finals"):
            table = getattr(self, name)
            setattr(self, name, np.concatenate([table, np.empty_like(table)]))

    def rules(self, start: int, numbers: I32, first_name: int) -> tuple[I32, I32, I32, I32, I32, I32]:
        """Write the names that a text of name `start` can call as rules: see `joining.rules_of`."""
        size = len(self._codes)
        pending, called, known = np.empty(size, np.int32), np.empty(size, np.int32), np.zeros(size, np.bool_)
        pending[0] = called[0] = start
        known[start] = True
        self._state[STEPS] = 0
        self._state[N_PENDING] = self._state[N_CALLED] = 1
        self._run(call_networks, pending, called, known)
        found: tuple[I32, I32, I32, I32, I32, I32] = rules_of(
            called[: self._state[N_CALLED]], self.numbers, self._codes, numbers, first_name, self._begins, self._first,
            self._symbols, self._targets, self._finals,
        )  # fmt: skip
        return found
