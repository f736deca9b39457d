"""The model of many nodes: it agrees with what theory knows, and every effect has its direction."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.scale_model import Arrival, Fleet, Objective, RequestClass, arrivals, fewest, most_per_s
from sluicegate.gateway.commands.size.capacity import NodeFigures

ONE_BY_ONE = NodeFigures(prefill_tokens_per_s=1e12, step_s=0.1, step_each_s=0.0, places=1)
NODE = NodeFigures(prefill_tokens_per_s=5000, step_s=0.02, step_each_s=0.002, places=8)
MIX = (RequestClass(0.7, 700, 30, prefix=600, prefixes=12), RequestClass(0.3, 400, 20))
WANTED = Objective(1.0, 0.2)


def test_a_queue_waits_as_long_as_the_formula_says() -> None:
    """One place, one token, service of constant length: Pollaczek and Khinchine's mean wait of M/D/1."""
    busy = 0.7
    asked = list(arrivals((RequestClass(1, 1, 1, spread=0.0),), busy / 0.1, 4000.0))
    seen = Fleet(ONE_BY_ONE, 1).run(asked)
    assert seen.mean_first_s == pytest.approx(0.1 + busy * 0.1 / (2 * (1 - busy)), rel=0.08)
    assert seen.busy == pytest.approx(busy, rel=0.05)


def test_one_request_alone_takes_what_its_node_needs() -> None:
    seen = Fleet(NODE, 3).run([Arrival(5.0, 500, 4)])
    assert seen.mean_first_s == pytest.approx(0.1 + 0.02)
    assert seen.mean_total_s == pytest.approx(0.1 + 4 * 0.02)


def test_every_request_is_answered_whole_and_once() -> None:
    asked = list(arrivals(MIX, 20.0, 30.0))
    seen = Fleet(NODE, 2).run(asked)
    assert seen.requests == len(asked)
    assert all(one.first_s <= one.ended_s - one.at_s + 1e-9 < math.inf for one in asked)
    assert all(one.drawn >= one.answer for one in asked)


def test_the_same_seed_is_the_same_run() -> None:
    runs = [Fleet(NODE, 2, choice).run(arrivals(MIX, 20.0, 20.0)) for choice in ("prefix", "prefix", "random")]
    assert runs[0] == runs[1] != runs[2]


def test_prefixes_read_before_are_not_read_again_where_routing_knows_them() -> None:
    """Caches that hold a third of the beginnings: by prefix each node keeps its own."""
    seen = {
        choice: Fleet(NODE, 4, choice, held=2400).run(arrivals(MIX, 25.0, 40.0))  # type: ignore[arg-type]
        for choice in ("prefix", "load", "random")
    }
    assert seen["prefix"].read > 1.5 * seen["load"].read
    assert seen["prefix"].busy < seen["load"].busy
    assert Fleet(NODE, 4, held=0).run(arrivals(MIX, 25.0, 10.0)).read < 0.1


def test_kept_answers_speculation_and_more_load_change_the_nodes() -> None:
    fleet = Fleet(NODE, 1)

    def nodes(changed: Fleet = fleet, rate: float = 30.0) -> int:
        return fewest(changed, MIX, rate, 15.0, WANTED)

    assert nodes(replace(fleet, kept=0.5)) < nodes()
    assert nodes(replace(fleet, figures=replace(NODE, tokens_per_step=2.0))) <= nodes()
    assert nodes(rate=90.0) > nodes()


def test_the_fewest_keep_the_objective_and_one_less_does_not() -> None:
    count = fewest(Fleet(NODE, 1), MIX, 40.0, 15.0, WANTED)
    assert WANTED.kept_by(Fleet(NODE, count).run(arrivals(MIX, 40.0, 15.0)))
    assert count == 1 or not WANTED.kept_by(Fleet(NODE, count - 1).run(arrivals(MIX, 40.0, 15.0)))


def test_the_most_that_some_nodes_can_do_lies_at_the_edge_of_the_objective() -> None:
    ideal_s = 0.7 * (700 / 5000 + 30 * 0.034 / 8) + 0.3 * (400 / 5000 + 20 * 0.034 / 8)
    most = most_per_s(Fleet(NODE, 3), MIX, ideal_s, 15.0, WANTED)
    assert WANTED.kept_by(Fleet(NODE, 3).run(arrivals(MIX, most, 15.0)))
    assert not WANTED.kept_by(Fleet(NODE, 3).run(arrivals(MIX, 1.2 * most, 15.0)))


def test_an_objective_that_no_node_keeps_is_an_error() -> None:
    with pytest.raises(ValueError, match="an idle one does not"):
        fewest(Fleet(NODE, 1), MIX, 0.5, 10.0, Objective(0.001, 0.2))
