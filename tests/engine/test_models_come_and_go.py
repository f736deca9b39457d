"""Several models in one engine, added, replaced and removed while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.engine import Engine, EngineSettings, LoadProgress, ModelSettings
from sluicegate.plugins import ConfigurationError, ModelHost, ModelLoadError, NotFound, RequestError
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, run, serving

Folder = Callable[..., Path]


async def test_a_model_is_added_while_another_answers(tiny: MakeModel, tiny_folder: Folder) -> None:
    async with serving(tiny("llama")) as engine:
        assert isinstance(engine, ModelHost)
        talking = await engine.generate(a_job(tiny("llama"), "the", max_tokens=200, ignore_eos=True))
        seen: list[LoadProgress] = []
        added = await engine.add_model(
            {"path": str(tiny_folder("qwen3")), "name": "second"}, on_progress=lambda progress: seen.append(progress)
        )
        answers = await run(engine, a_job(added, "the cat"))  # type: ignore[arg-type]
        direct = await run(engine, a_job(tiny("llama"), "the cat"))
        assert len((await collect(talking)).tokens[0]) == 200
        assert set(engine.models) == {"llama", "second"}
        assert engine.stats()["models_loaded"] == 2
    async with serving(tiny("qwen3")) as engine:
        assert (await run(engine, a_job(tiny("qwen3"), "the cat")))[0].tokens == answers[0].tokens
    assert answers[0].tokens != direct[0].tokens
    assert [progress.done for progress in seen] == list(range(1, seen[0].total + 1))
    assert {progress.model for progress in seen} == {"second"}


async def test_requests_that_run_finish_on_the_model_they_began_with(tiny: MakeModel, tiny_folder: Folder) -> None:
    """Replacing: the old model's answer goes on to its end, the next request is the new model's."""
    job = a_job(tiny("llama"), "the cat", max_tokens=60, ignore_eos=True)
    async with serving(tiny("llama")) as engine:
        old_answer = (await run(engine, job))[0].tokens
        begun = await engine.generate(job)
        new = await engine.add_model({"path": str(tiny_folder("llama", 1)), "name": "llama"}, replace=True)
        assert engine.models["llama"] is new
        assert (await collect(begun)).tokens == old_answer
        assert (await run(engine, job))[0].tokens != old_answer
        stats = engine.stats()
    assert (stats["models_loaded"], stats["kv_cache_usage_ratio"]) == (1, 0)
    assert stats["tokens_generated_total"] == 180


async def test_a_removed_model_drains_and_is_found_no_more(tiny: MakeModel) -> None:
    job = a_job(tiny("llama"), "the", max_tokens=60, ignore_eos=True)
    async with serving(tiny("llama")) as engine:
        begun = await engine.generate(job)
        removing = asyncio.create_task(engine.remove_model("llama"))
        await asyncio.sleep(0)
        with pytest.raises(NotFound, match="loaded: none"):
            await engine.generate(job)
        assert (await collect(begun)).reasons == ["length"]
        await removing
        assert engine.stats()["models_loaded"] == 0
        assert engine.stats()["tokens_generated_total"] == 60


async def test_what_does_not_finish_in_time_is_cancelled(tiny: MakeModel) -> None:
    async with serving(tiny("llama")) as engine:
        begun = await engine.generate(a_job(tiny("llama"), "the", max_tokens=400, ignore_eos=True))
        await engine.remove_model("llama", drain_s=0.0)
        assert (await collect(begun)).reasons == ["cancelled"]


async def test_a_model_that_cannot_be_loaded_changes_nothing(tiny: MakeModel, tmp_path: Path) -> None:
    async with serving(tiny("llama")) as engine:
        with pytest.raises(ModelLoadError):
            await engine.add_model({"path": str(tmp_path / "none"), "name": "llama"}, replace=True)
        assert engine.models["llama"] is tiny("llama")
        assert (await run(engine, a_job(tiny("llama"), "the")))[0].reasons[0] is not None


async def test_names_and_aliases_lead_to_one_model_each(tiny: MakeModel, tiny_folder: Folder) -> None:
    path = str(tiny_folder("qwen2"))
    async with serving(tiny("llama")) as engine:
        added = await engine.add_model(ModelSettings(path, name="q", aliases=("small", "default")))
        assert engine.models["small"] is engine.models["default"] is added
        by_alias = a_job(added, "the")  # type: ignore[arg-type]
        by_alias = type(by_alias)("id", "small", by_alias.prompt, by_alias.sampling)
        assert (await run(engine, by_alias))[0].reasons[0] is not None
        for name, aliases in (("llama", ()), ("x", ("llama",)), ("x", ("small",)), ("small", ())):
            with pytest.raises(RequestError, match=r"llama|small"):
                await engine.add_model(ModelSettings(path, name=name, aliases=aliases))
        with pytest.raises(NotFound, match="alias of model 'q'"):
            await engine.remove_model("small")
        await engine.add_model(ModelSettings(path, name="q", aliases=("tiny",)), replace=True)
        assert set(engine.models) == {"llama", "q", "tiny"}
        await engine.remove_model("q")
        assert set(engine.models) == {"llama"}


async def test_an_operators_version_comes_before_the_digest(tiny: MakeModel, tiny_folder: Folder) -> None:
    async with serving(tiny("llama")) as engine:
        added = await engine.add_model({"path": str(tiny_folder("llama")), "name": "x", "version": "2026-11"})
    assert added.version == f"2026-11+{tiny('llama').version}"


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["bundled", "bundled"], "bundled would lead to more than one"),
        ([{"path": "a", "name": "x"}, {"path": "b", "aliases": ["x"]}], "x would lead"),
        ([{"path": "a", "aliases": "x"}], "aliases must be a list of strings, found 'x'"),
        ([3], "models must be paths or tables such as {path = '...'}, found 3"),
    ],
)
def test_models_that_cannot_be_told_apart_are_refused(models: list[object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EngineSettings.of({"models": models})


def test_models_may_be_a_table_by_name() -> None:
    made = EngineSettings.of({"models": {"fast": "bundled", "slow": {"path": "some/model", "aliases": ["big"]}}})
    assert made.models == (ModelSettings("bundled", "fast"), ModelSettings("some/model", "slow", aliases=("big",)))


async def test_models_before_the_start_are_simply_put_in_and_out(tiny: MakeModel) -> None:
    engine = Engine(EngineSettings(num_blocks=32, block_size=4), [tiny("llama"), tiny("qwen2")])
    await engine.remove_model("qwen2")
    await engine.start()
    try:
        assert (await run(engine, a_job(tiny("llama"), "the")))[0].reasons[0] is not None
    finally:
        await engine.close()


async def test_a_start_says_how_far_it_is(tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `/readyz` shows while a model loads: it grows to the whole, and is gone when all are served."""
    folder, seen = tiny_folder("llama"), []
    engine = Engine(EngineSettings(models=(ModelSettings(str(folder), name="m"),), num_blocks=16, block_size=4))
    note = engine._note

    def watched(progress: LoadProgress) -> None:
        note(progress)
        seen.append(engine.starting())

    monkeypatch.setattr(engine, "_note", watched)
    assert engine.starting() == ""
    await engine.start()
    assert seen[0].startswith("loading m: 1 of ")
    assert seen[-1] == f"loading m: {len(seen)} of {len(seen)} tensors"
    assert engine.starting() == ""
    await engine.close()
