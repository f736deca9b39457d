"""Devices that are not there, and devices that are full: answers, not crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import EngineSettings, LoadedModel, load_model
from sluicegate.engine import construction as construction_module
from sluicegate.engine.construction import make_core
from sluicegate.engine.cuda.memory import DeviceMemory, cache_bytes, fitting, refuse_too_small, usable_device
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.plugins import ModelLoadError, Overloaded
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, prompts, run, serving

GB = 10**9


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is said where there is no GPU")
def test_a_device_that_is_not_there_is_an_answer(tiny_folder: Callable[..., Path]) -> None:
    with pytest.raises(ModelLoadError, match=r"torch sees no CUDA device.*leave out device"):
        load_model(tiny_folder("llama"), device="cuda")
    with pytest.raises(ModelLoadError, match="'gpu' is unknown; use 'cpu', 'cuda'"):
        load_model(tiny_folder("llama"), device="gpu")
    assert usable_device("cpu", "x") == torch.device("cpu")


@pytest.mark.parametrize(
    ("free", "share", "step", "expected"),
    [(100 * GB, 0.9, 0, 86 * GB), (100 * GB, 1.0, 3 * GB, 97 * GB), (14 * GB, 0.9, 0, 0), (5 * GB, 0.5, 0, 0)],
)
def test_a_cache_takes_what_is_free_above_the_reserve(free: int, share: float, step: int, expected: int) -> None:
    """Of 140 GB; the share is of all memory, weights included."""
    assert cache_bytes(DeviceMemory(free, 140 * GB), share, step_bytes=step) == pytest.approx(expected, abs=1)


def test_no_room_for_a_block_is_refused_with_numbers() -> None:
    with pytest.raises(ModelLoadError, match=r"'big' leaves no room.*1\.50 of 80\.00 GB.*device_memory"):
        refuse_too_small("big", 1000, 2000, DeviceMemory(3 * GB // 2, 80 * GB))


def test_a_pool_is_sized_by_the_devices_memory(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that says it is on a CUDA device; only the asking for its memory is replaced."""
    model = _said_to_be_on_cuda(tiny("llama"))
    settings = EngineSettings(max_batch_size=4, block_size=4, draft_tokens=0, device_memory=0.5)
    block = model.kv_bytes_per_token * 4
    logits = 2 * 4 * model.vocab_size * 4
    memory = DeviceMemory(500_000 + 10 * block + logits, 1_000_000)
    monkeypatch.setattr(construction_module, "memory_of", lambda device: memory)
    assert construction_module._rooms(settings, model)[0] == 10
    assert construction_module._rooms(replace(settings, kv_cache_bytes=3 * block), model)[0] == 3
    model.draft = tiny("llama")
    assert construction_module._rooms(settings, model)[0] == 5
    monkeypatch.setattr(construction_module, "memory_of", lambda device: DeviceMemory(500_000, 1_000_000))
    with pytest.raises(ModelLoadError, match="leaves no room"):
        construction_module._rooms(settings, model)


def test_a_pool_that_does_not_fit_is_a_load_error(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.\nmore")

    monkeypatch.setattr(construction_module, "ModelRunner", full)
    with pytest.raises(ModelLoadError, match=r"KV cache of 'llama' \(8 blocks\) does not fit.*Tried to allocate 9.00"):
        make_core(tiny("llama"), EngineSettings(num_blocks=8), Outbox())
    with pytest.raises(ModelLoadError, match="'m' does not fit"), fitting("'m'"):
        full()


class _FullDevice:
    """Raises what torch raises in the passes of a model that hold the marked token."""

    def __init__(self, model: LoadedModel, marked: int) -> None:
        self.handle = model.module.register_forward_pre_hook(self._look, with_kwargs=True)
        self.marked = marked

    def _look(self, module: Any, given: Any, named: dict[str, Any]) -> None:
        if (named["input_ids"] == self.marked).any():
            raise torch.OutOfMemoryError("CUDA out of memory.")


async def test_out_of_memory_in_a_pass_fails_the_request_that_needs_it(tiny_folder: Callable[..., Path]) -> None:
    """503 with a time to come back; requests beside it go on, and so do later ones."""
    model = load_model(tiny_folder("llama"))
    full = _FullDevice(model, marked=251)
    good = a_job(model, prompts([9])[0], max_tokens=6, ignore_eos=True, logit_bias={251: -100.0})
    async with serving(model, forward="transformers", draft_tokens=0) as engine:
        first, bad = await engine.generate(good), await engine.generate(a_job(model, [1, 251, 2]))
        with pytest.raises(Overloaded, match="out of the device's memory") as told:
            await collect(bad)
        assert (told.value.status, told.value.retry_after_s) == (503, 1.0)
        assert len((await collect(first)).tokens[0]) == 6
        assert len((await run(engine, good))[0].tokens[0]) == 6
    full.handle.remove()


async def test_out_of_memory_while_drawing_fails_that_steps_requests_alone(
    tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two requests one waits for a place while the other's step breaks; the one that waits is answered."""
    model = tiny("llama")
    async with serving(model, max_batch_size=1) as engine:
        sampler = engine._registry.cores[0]._sampler
        draw, calls = sampler.tokens, 0

        def full_once(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return draw(*given)

        monkeypatch.setattr(sampler, "tokens", full_once)
        jobs = [a_job(model, prompt, max_tokens=4, ignore_eos=True) for prompt in prompts([5, 6])]
        broken, waiting = [await engine.generate(job) for job in jobs]
        with pytest.raises(Overloaded, match="drawing tokens ran out"):
            await collect(broken)
        assert len((await collect(waiting)).tokens[0]) == 4


def _said_to_be_on_cuda(model: LoadedModel) -> LoadedModel:
    names = [field for field in model.__dataclass_fields__ if field != "lora"]
    values = {name: getattr(model, name) for name in names} | {"device": torch.device("cuda")}
    return LoadedModel(**values)
