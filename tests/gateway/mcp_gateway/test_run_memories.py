"""What is remembered of the runs of agents is bounded, and no key makes the gateway forget the runs of another."""

from __future__ import annotations

import pytest

from sluicegate.gateway.mcp import flows
from sluicegate.gateway.mcp.flows import RunMemories, RunMemory

SECRET = "the wire goes to account nine four one one seven"


def filled(memories: RunMemories, key: str, run: str, chars: int = 1000) -> RunMemory:
    found = memories.of(key, run)
    found.remember("mail", "read", SECRET + "x" * (chars - len(SECRET)), 24)
    return found


def remembers(memories: RunMemories, key: str, run: str) -> bool:
    return memories.of(key, run).find_carried("web", "post", {"text": SECRET}, (), 24) == "mail/read"


def test_many_runs_of_a_key_push_out_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_RUNS", 10)
    memories = RunMemories()
    filled(memories, "victim", "r")
    for number in range(50):
        filled(memories, "flood", f"made-up-{number}")
    assert remembers(memories, "victim", "r")
    assert remembers(memories, "flood", "made-up-49")
    assert len(memories) == 10


def test_large_runs_push_out_those_of_the_key_that_has_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "ALL_CHARS", 100_000)
    memories = RunMemories()
    filled(memories, "victim", "r", 20_000)
    for number in range(20):
        filled(memories, "flood", f"made-up-{number}", 20_000)
    assert remembers(memories, "victim", "r")
    assert not remembers(memories, "flood", "made-up-0")
    assert len(memories) <= 6


def test_arguments_count_as_results_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "ALL_CHARS", 20_000)
    memories = RunMemories()
    for number in range(20):
        memories.of("k", f"{number}").note_sent("web", "post", {"text": "y" * 9_000})
        memories.of("k", f"{number}").note_sent("web", "post", {"text": "z" * 9_000})
    assert len(memories) <= 4
    assert memories.of("k", "19").sent_chars == flows.TAIL + 2 * len("text")


def test_the_run_that_is_asked_for_stays_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "ALL_CHARS", 10_000)
    memories = RunMemories()
    filled(memories, "a", "r", 5_000)
    filled(memories, "b", "r", 50_000)
    assert remembers(memories, "b", "r")
    assert len(memories) == 1
