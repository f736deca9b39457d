"""From the model's own code to compiled loops, while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from sluicegate.engine import LoadedModel, cores
from sluicegate.engine.kernel_list import kernels_of
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE, Compilable, Types
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, run, serving
from tests.waiting import soon


class Missing:
    """Loops that are not there until a test says so."""

    def __init__(self) -> None:
        self.is_there = False
        self._batches: list[Callable[[Mapping[str, str]], None]] = []
        self.trouble: str | None = None

    def load(self) -> bool:
        return self.is_there

    def stats(self) -> Mapping[str, float]:
        return {}

    def request(self, kernel: Compilable, types: Types) -> None:
        raise AssertionError("a core without compiled loops calls one")

    def request_all(self, kernels: Iterable[Compilable], then: Callable[[Mapping[str, str]], None]) -> None:
        self._batches.append(then)

    def close(self) -> None: ...

    def come(self, failed: Mapping[str, str] | None = None) -> None:
        self.is_there = not failed
        for then in self._batches:
            then(failed or {})


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Missing]:
    found = Missing()
    monkeypatch.setattr(COMPILE_MODE, "builder", found)
    monkeypatch.setattr(cores, "kernels_of", lambda *_: [found])
    return found


async def test_requests_begun_before_finish_as_they_began_and_later_ones_are_compiled(
    tiny: MakeModel, missing: Missing
) -> None:
    model = tiny("llama")
    job = a_job(model, "the cat sat on the mat", max_tokens=150, ignore_eos=True)
    async with serving(model) as engine:
        begun = [await engine.generate(job) for _ in range(3)]
        first = await collect(begun[0])
        again = await engine.generate(job)
        missing.come()
        await soon(lambda: engine.stats()["compiled_switches_total"])
        later = await engine.generate(job)
        answers = await asyncio.gather(*[collect(one) for one in (*begun[1:], again, later)])
        await soon(lambda: engine.stats()["models_loaded"] == 1)
        stats = engine.stats()
    assert [one.timeline.forward for one in (*begun, again, later)] == ["transformers"] * 4 + ["compiled"]
    assert {tuple(one.tokens[0]) for one in answers} == {tuple(first.tokens[0])}
    assert again.cached_tokens > 0
    assert later.cached_tokens == 0, "blocks of KV are not shared by the two"
    assert stats["tokens_generated_total"] == 5 * 150
    assert (stats["models_uncompiled"], stats["kv_cache_usage_ratio"], stats["requests_running"]) == (0, 0, 0)


@pytest.mark.parametrize("sampling", [{}, {"top_p": 0.8}, {"top_k": 5, "frequency_penalty": 0.5}, {"min_p": 0.1}])
async def test_seeded_answers_are_the_same_on_both_sides(
    tiny: MakeModel, missing: Missing, sampling: dict[str, float]
) -> None:
    """On this model: where two draws are as likely to the last bits, the two may differ."""
    model = tiny("llama")
    jobs = [a_job(model, "the cat", max_tokens=40, temperature=1.0, seed=seed, **sampling) for seed in range(6)]
    async with serving(model) as engine:
        before = [one.tokens for one in await run(engine, *jobs)]
        missing.come()
        await soon(lambda: engine.stats()["compiled_switches_total"])
        assert [one.tokens for one in await run(engine, *jobs)] == before


async def test_where_nothing_can_be_compiled_the_models_own_code_goes_on(tiny: MakeModel, missing: Missing) -> None:
    model = tiny("llama")
    async with serving(model) as engine:
        missing.come({"a loop": "no compiler"})
        generation = await engine.generate(a_job(model, "the"))
        await collect(generation)
        stats = engine.stats()
    assert generation.timeline.forward == "transformers"
    assert (stats["models_uncompiled"], stats["compiled_switches_total"]) == (1, 0)


async def test_a_model_that_is_gone_by_then_is_not_brought_back(tiny: MakeModel, missing: Missing) -> None:
    async with serving(tiny("llama")) as engine:
        await engine.remove_model("llama")
        missing.come()
        await asyncio.sleep(0)
        assert not engine.models


async def test_names_and_adapters_stay(tiny: MakeModel, missing: Missing, tiny_folder: Callable[..., object]) -> None:
    model = tiny("llama")
    async with serving(model) as engine:
        await engine.add_model({"path": str(tiny_folder("qwen3")), "name": "other", "aliases": ["another"]})
        missing.come()
        await soon(lambda: engine.stats()["compiled_switches_total"] == 2)
        assert set(engine.models) == {"llama", "other", "another"}
        assert (await run(engine, a_job(model, "the", version=None)))[0].tokens


def test_what_is_listed_is_all_that_a_compiled_core_calls(tiny: MakeModel) -> None:
    """Declared types and those of calls are the same: else the first request would compile after all."""
    listed = kernels_of(tiny("llama"), EngineSettings())
    before = {kernel: set(kernel.overloads) for kernel in listed}
    assert all(set(kernel.declared) for kernel in listed)

    async def answer() -> None:
        model: LoadedModel = tiny("llama")
        async with serving(model) as engine:
            await run(engine, a_job(model, "the cat", temperature=1.0, seed=3, top_p=0.9, frequency_penalty=0.3))

    asyncio.run(answer())
    for kernel in listed:
        assert set(kernel.overloads) - before[kernel] <= set(kernel.declared), kernel
