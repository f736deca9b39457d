"""Byte automata the slow way: what the compiled loops of `string_table` are compared with."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import DEFAULT_BUDGET, Budget, ByteDfa, CharDfa
from sluicegate.grammar.automata.byte_level.json_strings import STRING_BUDGET, spelled
from sluicegate.grammar.automata.tables.algebra import concat
from sluicegate.grammar.automata.tables.table import Row, Table, minimal
from sluicegate.grammar.budget.meter import WorkMeter


def json_string_body(dfa: CharDfa, *, escapes: bool = True, budget: Budget = STRING_BUDGET) -> ByteDfa:
    """Return what may stand between the quotes of a JSON string whose value is in `dfa`, in every spelling or in
    one."""
    return spelled(dfa, "every" if escapes else "one", WorkMeter(budget, "string automaton"))


def byte_concat(left: ByteDfa, right: ByteDfa) -> ByteDfa:
    return ByteDfa.of_table(concat(left.table(), right.table(), WorkMeter(DEFAULT_BUDGET, "concatenation")))


def minimize(transitions: npt.NDArray[np.integer], accepting: Iterable[bool], start: int = 0) -> ByteDfa:
    """Turn any deterministic [S, 256] table (-1 = dead) into the canonical automaton of its language."""
    rows: list[Row] = [{byte: t for byte, t in enumerate(line) if t >= 0} for line in transitions.tolist()]
    table = Table(list(range(256)), list(range(256)), rows, [bool(a) for a in accepting], start)
    return ByteDfa.of_table(minimal(table, WorkMeter(DEFAULT_BUDGET, "byte automaton")))


def byte_literal(data: bytes) -> ByteDfa:
    """Exactly these bytes."""
    rows = [((byte, byte, position + 1),) for position, byte in enumerate(data)]
    return ByteDfa([*rows, ()], [False] * len(data) + [True])
