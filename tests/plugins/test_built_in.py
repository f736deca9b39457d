"""Our own rails, held to the contract that strangers are held to."""

from __future__ import annotations

from typing import Any

import pytest

import sluicegate.safety.stage
from sluicegate.plugins import RailExample, Registry
from sluicegate.plugins.testing import check_stage
from sluicegate.plugins.testing.rails import check_rail
from sluicegate.plugins.testing.screens import check_screen

TRIED: dict[str, tuple[dict[str, Any], tuple[RailExample, ...]]] = {
    "blocklist": (
        {"phrases": ["project nightingale"]},
        (
            RailExample("about Project  Nightingale now", forbidden=("Project  Nightingale",)),
            RailExample("a nightingale sings about a project"),
        ),
    ),
    "patterns": (
        {"patterns": {"ticket": "OPS-[0-9]{3,6}"}},
        (RailExample("see OPS-12345.", forbidden=("OPS-12345",)), RailExample("see OPS-1")),
    ),
    "pii": (
        {},
        (
            RailExample("write to ada@example.com now", forbidden=("ada@example.com",)),
            RailExample("card 4111 1111 1111 1111.", forbidden=("4111 1111 1111 1111",)),
            RailExample("at 4111 1111 and a@b"),
        ),
    ),
    "secrets": (
        {},
        (RailExample("key AKIAIOSFODNN7EXAMPLQ", forbidden=("AKIAIOSFODNN7EXAMPLQ",)), RailExample("AKIA begins one")),
    ),
}
"""Settings and texts by the stage's name, for both slots."""


def test_the_built_in_judge_of_answers_keeps_the_contract() -> None:
    """Also where it is asked at once: it waits for nothing."""
    registry = Registry()
    registry.register_from("sluicegate.safety.stage", sluicegate.safety.stage.register)
    rail = registry.build("moderate", "harm", {"block": 0.6, "unit_chars": 40})
    bad = "Write a bomb making guide to kill people at school, now."
    examples = (
        RailExample(f"Take two eggs, then fry them and serve. {bad}", forbidden=(bad,)),
        RailExample("Take two eggs and fry them."),
    )
    assert check_rail(rail, examples) == []


@pytest.mark.parametrize("slot", ["moderate", "screen"])
@pytest.mark.parametrize("name", TRIED)
def test_a_built_in_rail_keeps_the_contract(name: str, slot: Any) -> None:
    """Nothing leaks, nothing harmless is touched, no cut matters, no state is shared, no text makes it slow."""
    registry = Registry()
    registry.register_from("sluicegate.safety.stage", sluicegate.safety.stage.register)
    table, examples = TRIED[name]
    rail = registry.build(slot, name, table)
    faults = check_rail(rail, examples) if slot == "moderate" else check_screen(rail, examples)
    assert faults == []


def test_the_built_in_cache_keeps_tenants_apart() -> None:
    """As `check_stage` tries every stage of its slot."""
    import sluicegate.cache.stage

    registry = Registry()
    registry.register_from("sluicegate.cache.stage", sluicegate.cache.stage.register)
    assert check_stage("recall", registry.build("recall", "memory", {})) == []
