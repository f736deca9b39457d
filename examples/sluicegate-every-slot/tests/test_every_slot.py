"""Each stage against its slot's contract and its own promise, then all ten in one gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sluicegate_every_slot import DailyQuota, Deadline, Files, NamedPatterns, NoBidi, register

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import (
    SLOTS,
    Answer,
    CacheKey,
    Caller,
    ConfigurationError,
    Constraint,
    InvalidGrammar,
    Job,
    Piece,
    Prompt,
    RateLimited,
    Registry,
    Sampling,
)
from sluicegate.plugins.testing import (
    FakeModel,
    PlainAssembler,
    RailContract,
    ScriptedModel,
    Unconstrained,
    check_stage,
    make_request,
)

KEY = CacheKey("tenant", "model", "0" * 64)


def settings_of(tmp_path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        "admit": {"daily-quota": {"requests": 3}},
        "screen": {"too-long": {"characters": 100}},
        "retrieve": {"notes": {"folder": str(tmp_path / "notes")}},
        "assemble": {"house-rules": {"text": "Be kind.", "inner": "plain"}},
        "recall": {"files": {"folder": str(tmp_path / "answers")}},
        "constrain": {"named-patterns": {"patterns": {"ticket": "[A-Z]+-[0-9]+"}, "inner": "unconstrained"}},
        "generate": {"deadline": {"seconds": 5, "inner": "scripted"}},
        "record": {"json-lines": {"path": str(tmp_path / "requests.jsonl")}},
    }


def register_plain(registry: Any) -> None:
    registry.add("assemble", "plain", lambda table: PlainAssembler())


@pytest.fixture
def registry() -> Registry:
    """Return what a gateway would have registered, with doubles in place of the stages that are wrapped."""
    found = Registry()
    found.add("generate", "scripted", lambda table: ScriptedModel())
    found.add("constrain", "unconstrained", lambda table: Unconstrained())
    register_plain(found)
    found.register_from("every-slot", register)
    return found


@pytest.mark.parametrize("slot", SLOTS)
def test_each_slot_has_a_stage_that_keeps_its_contract(slot: Any, registry: Registry, tmp_path: Path) -> None:
    """Fill every slot from outside."""
    ours = [stage.name for stage in registry.all() if stage.slot == slot and stage.source == "every-slot"]
    assert len(ours) == 1
    table = settings_of(tmp_path).get(slot, {}).get(ours[0], {})
    assert check_stage(slot, registry.build(slot, ours[0], table)) == []


class TestNoBidi(RailContract):
    def rail(self) -> NoBidi:
        return NoBidi()


def test_the_quota_is_each_tenants_own_and_begins_anew_each_day() -> None:
    """Check that the refusal says how long to wait."""
    now = [86_400.0 * 3 + 86_000]
    quota = DailyQuota(1, lambda: now[0])
    request, one, other = make_request(), Caller("one"), Caller("other")
    assert asyncio.run(quota.admit(request, one)) == one
    assert asyncio.run(quota.admit(request, other)) == other
    with pytest.raises(RateLimited) as refused:
        asyncio.run(quota.admit(request, one))
    assert refused.value.retry_after_s == 400
    now[0] += 400
    assert asyncio.run(quota.admit(request, one)) == one


def test_a_cache_that_cannot_be_read_or_written_never_fails_a_request(tmp_path: Path) -> None:
    """Check that half a file, and a file in place of the folder, are counted and answered with None."""
    files = Files(str(tmp_path))
    asyncio.run(files.store(KEY, (Answer(0, "kept", "stop"),)))
    assert asyncio.run(files.look_up(KEY)) == (Answer(0, "kept", "stop"),)
    next(tmp_path.glob("*.json")).write_text("[{")
    assert asyncio.run(files.look_up(KEY)) is None
    blocked = Files(str(next(tmp_path.glob("*.json"))))
    asyncio.run(blocked.store(KEY, (Answer(0, "kept", "stop"),)))
    assert (files.stats()["errors_total"], blocked.stats()["errors_total"]) == (1, 1)


def test_a_named_pattern_reaches_the_inner_stage_spelled_out() -> None:
    """Check that another name is refused with those that exist."""
    inner = Unconstrained()
    named = NamedPatterns(inner, {"ticket": "[A-Z]+-[0-9]+"})
    asyncio.run(named.compile(Constraint("regex", "@ticket"), FakeModel()))
    asyncio.run(named.compile(Constraint("regex", "[a-z]@"), FakeModel()))
    assert [constraint.value for constraint in inner.compiled] == ["[A-Z]+-[0-9]+", "[a-z]@"]
    with pytest.raises(InvalidGrammar, match="@ticket"):
        asyncio.run(named.compile(Constraint("regex", "@tickets"), FakeModel()))


def test_a_generation_past_its_deadline_ends_every_open_choice() -> None:
    """Check that what was generated in time is kept, and the engine's work is cancelled."""
    model = ScriptedModel(["a"] * 1000, delay_s=0.01)

    async def run() -> list[Piece]:
        job = Job("1", "scripted", Prompt("x", (120,)), Sampling(), n=2)
        return [piece async for piece in await Deadline(model, 0.1).generate(job)]

    pieces = asyncio.run(run())
    assert [(p.index, p.finish_reason) for p in pieces[-2:]] == [(0, "length"), (1, "length")]
    assert 2 < len(pieces) < 30
    assert model.generations[0].cancelled


def test_settings_are_checked_by_name_and_by_type() -> None:
    """Check that the message names what is valid."""
    registry = Registry()
    registry.register_from("every-slot", register)
    with pytest.raises(ConfigurationError, match="has no 'request'; did you mean 'requests'"):
        registry.build("admit", "daily-quota", {"request": 2})
    with pytest.raises(ConfigurationError, match="folder must be a string, found 2"):
        registry.build("recall", "files", {"folder": 2})


def test_all_ten_run_in_one_gateway(tmp_path: Path) -> None:
    """Check that each of them has left its trace on one request or the next."""
    pipeline = {slot: list(stages) for slot, stages in settings_of(tmp_path).items()}
    pipeline |= {"route": ["by-length"], "moderate": ["no-bidi"]}
    script = ["OPS-\u202e", "204"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tickets.md").write_text("Which ticket? The newest.\n\nLunch is at noon.")
    registers = (register_plain, register)
    with TestApp(*registers, pipeline=pipeline, stages=settings_of(tmp_path), script=script) as gateway:
        form = {"model": "auto", "temperature": 0, "structured_outputs": {"regex": "@ticket"}}
        assert gateway.ask("Which?", **form).finish_reason == "content_filter"  # a pattern's answer is never changed
        noted = gateway.ask("Which?", model="auto", temperature=0, stream=False, sluicegate={"retrieve": True})
        assert noted.text == "OPS-204"
        assert [one["source"] for one in noted.body["sluicegate"]["retrieval"]["documents"]] == ["tickets.md"]
        assert gateway.ask("word " * 50).error["code"] == "content_filter"
        assert gateway.ask("Once more?").status == 429
        assert gateway.model.jobs[0].prompt.text.startswith("system: Be kind.\nuser: Which?")
        gateway.wait_for_outcomes(4)
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [line["ended"] for line in lines] == [["content_filter"], ["stop"], "content_filter", "rate_limit_exceeded"]
    assert len(list((tmp_path / "answers").glob("*.json"))) == 1
