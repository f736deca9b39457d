"""What endpoint pickers are told of blocks and adapters, as vLLM's metrics say it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sluicegate.engine import Engine
from sluicegate.gateway.request.generators import Generators
from sluicegate.gateway.telemetry import Metrics
from sluicegate.plugins import Capacity, CapacityReporter, offers
from sluicegate.plugins.testing import ScriptedModel
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, serving
from tests.engine.lora import linear_layers, write_adapter
from tests.waiting import soon


async def test_an_engine_says_its_blocks_and_whose_adapters_run(
    tiny: MakeModel, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """Adapters without requests are not named; one whose requests wait for a place is not said to run."""
    model, base = tiny("llama"), tiny_folder("llama")
    async with serving(model, max_batch_size=1) as engine:
        assert engine.capacity().num_blocks > 0
        assert engine.capacity().block_size > 0
        assert (engine.capacity().adapters, engine.capacity().running) == (0, ())
        for name in ("first", "second"):
            path = write_adapter(tmp_path / name, base, linear_layers(base), seed=1, size=0.2)
            await engine.add_model({"path": str(path), "base": "llama", "name": name})
        job = a_job(model, "the cat", max_tokens=100, ignore_eos=True)
        running = await engine.generate(replace(job, model="first"))
        await soon(lambda: engine.capacity().running == ("first",))
        waiting = await engine.generate(replace(job, model="second"))
        if not running.is_over:
            found = engine.capacity()
            assert (found.adapters, set(found.running + found.waiting)) == (2, {"first", "second"})
        await collect(running)
        await collect(waiting)
        assert (engine.capacity().running, engine.capacity().waiting) == ((), ())
        assert isinstance(engine, Engine)
        both = Generators([("scripted", ScriptedModel()), ("engine", engine)])
        assert both.capacity() == engine.capacity()


def test_the_metrics_have_vllms_names_and_labels() -> None:
    metrics = Metrics()
    metrics.alias(dict, lambda: "m", lambda: Capacity(16, 640, 2, ("a", "b"), ("c",)))
    lines = metrics.exposition()[0].decode().splitlines()
    assert 'vllm:cache_config_info{block_size="16",num_gpu_blocks="640"} 1.0' in lines
    [info] = [line for line in lines if line.startswith("vllm:lora_requests_info{")]
    head, value = info.rsplit(" ", 1)
    assert head.endswith('{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"}')
    assert abs(time.time() - float(value)) < 600


def test_a_generator_without_capacity_is_not_asked() -> None:
    assert not offers(ScriptedModel(), CapacityReporter)
    metrics = Metrics()
    metrics.alias(dict, lambda: "m", None)
    assert b"cache_config_info" not in metrics.exposition()[0]


async def test_a_closed_engine_holds_no_kv_memory(tiny: MakeModel) -> None:
    """Whoever still knows the engine holds its bookkeeping, not its pool."""
    model, blocks = tiny("llama"), 131

    def pools() -> int:
        return sum(type(each) is torch.Tensor and each.shape[:1] == (blocks,) for each in gc.get_objects())

    async with serving(model, num_blocks=blocks) as engine:
        await collect(await engine.generate(a_job(model, "the cat")))
        assert pools() > 0
    assert pools() == 0
    assert engine.models
