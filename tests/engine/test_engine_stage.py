"""The door: names, settings, and an engine that loads its own models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from sluicegate import engine
from sluicegate.engine import Engine
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.engine.stage import register
from sluicegate.plugins import ConfigurationError, Registry
from tests.engine.driving import a_job, run


def build(**settings: object) -> Engine:
    registry = Registry()
    register(registry)
    built = registry.build("generate", "engine", settings)
    assert isinstance(built, Engine)
    return built


async def test_the_stage_loads_the_models_of_its_settings(tiny_folder: Callable[..., Path]) -> None:
    made = build(models=[{"path": str(tiny_folder("llama")), "name": "small"}], num_blocks=32, block_size=4)
    assert dict(made.models) == {}
    await made.start()
    try:
        model = made.models["small"]
        assert model.vocab_size == 266
        assert (await run(made, a_job(model, "the cat")))[0].reasons[0] is not None  # type: ignore[arg-type]
    finally:
        await made.close()


async def test_a_model_that_cannot_be_loaded_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing-here"):
        await build(models=[str(tmp_path / "nothing-here")]).start()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_block": 3}, "has no 'num_block'; did you mean 'num_blocks'"),
        ({"models": [{"pth": "x"}]}, "has no 'pth'; did you mean 'path'"),
        ({"models": []}, "models is empty"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"max_batch_size": 64, "max_batch_tokens": 64}, "must be greater"),
    ],
)
def test_wrong_settings_are_refused_with_what_is_valid(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(**settings)


def test_blocks_are_as_many_as_the_bytes_hold_and_a_batch_can_use(tiny: Callable[..., engine.LoadedModel]) -> None:
    model = tiny("llama")
    block_bytes = 16 * model.kv_bytes_per_token

    def blocks(**settings: int) -> int:
        made = Engine(EngineSettings(**settings), [model])
        return made._registry.cores[0].scheduler.pool.num_blocks

    assert blocks(kv_cache_bytes=10 * block_bytes + 1) == 10
    assert blocks(max_batch_size=2) == 2 * 512 // 16
    assert blocks(num_blocks=7) == 7


def test_every_setting_and_every_gauge_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text("utf-8")
    names = [field.name for field in fields(EngineSettings)]
    names += [field.name for field in fields(ModelSettings)]
    names += list(Engine(EngineSettings()).stats())
    assert [name for name in names if f"`{name}`" not in page] == []
