"""The engine goes on: deadlines end what nobody waits for, a wedged thread is replaced, nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.engine import Engine, LoadedModel
from sluicegate.engine.batching.batch import Batch
from sluicegate.engine.loop.wait_estimate import WaitEstimate
from sluicegate.plugins import DeadlineExceeded, GenerationFailed, LoadReporter, Overloaded
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, core_of, prompts, run, serving
from tests.engine.test_background_matching import CostlyGrammar
from tests.waiting import soon


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


# --- deadlines and load --------------------------------------------------------------------------------------------


async def test_a_request_whose_time_is_over_ends_with_an_error_and_frees_its_blocks(model: LoadedModel) -> None:
    """Waiting, running and with several choices; others go on as if nothing had happened."""
    healthy = a_job(model, "the", max_tokens=60, ignore_eos=True)
    async with serving(model, max_batch_size=3) as engine:
        expected = (await run(engine, healthy))[0].tokens
        hurried = [a_job(model, "the cat", n=n, max_tokens=400, ignore_eos=True, deadline_s=0.01) for n in (1, 3)]
        generations = [await engine.generate(job) for job in (healthy, *hurried)]
        results = await asyncio.gather(*map(collect, generations), return_exceptions=True)
        assert engine.stats()["kv_cache_usage_ratio"] == 0
        assert not core_of(engine).has_work
    assert not isinstance(results[0], BaseException)
    assert results[0].tokens == expected
    assert [type(result) for result in results[1:]] == [DeadlineExceeded] * 2


async def test_a_request_that_is_done_in_time_never_hears_of_its_deadline(model: LoadedModel) -> None:
    async with serving(model) as engine:
        result = (await run(engine, a_job(model, "the", deadline_s=600.0, ignore_eos=True)))[0]
        assert result.reasons == ["length"]
        assert core_of(engine).requests._deadlines._at == {}


async def test_what_would_still_wait_at_its_deadline_is_not_taken_in(model: LoadedModel) -> None:
    async with serving(model, max_batch_size=1) as engine:
        assert isinstance(engine, LoadReporter)
        assert engine.load().wait_s == 0
        blocking = await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True))
        await soon(lambda: engine.load().running == 1)
        await soon(lambda: engine.load().wait_s > 0 and engine.load().free_blocks < 128)
        load = engine.load()
        assert (load.waiting, load.total_blocks) == (0, 128)
        assert 0 < load.free_blocks < 128
        assert load.wait_s > 0
        with pytest.raises(Overloaded, match="a place is expected in") as refused:
            await engine.generate(a_job(model, "the", deadline_s=0.0))
        assert refused.value.retry_after_s > 0
        blocking.cancel()
        await collect(blocking)


async def test_lines_of_a_batch_keep_nobody_waiting(model: LoadedModel) -> None:
    """They hold the only place and wait for it, and give it up as soon as an interactive request needs it."""
    async with serving(model, max_batch_size=1) as engine:
        lines = [a_job(model, "the", max_tokens=400, ignore_eos=True, priority=10) for _ in range(3)]
        running = [await engine.generate(job) for job in lines]
        await soon(lambda: (engine.load().running, engine.load().waiting) == (1, 2))
        assert engine.load().wait_s == 0
        urgent = await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True))
        await soon(lambda: engine.load().waiting == 3)
        await soon(lambda: engine.load().wait_s > 0)
        for generation in (urgent, *running):
            generation.cancel()
            await collect(generation)


def test_the_wait_is_the_stay_of_others_over_the_places() -> None:
    wait_estimate = WaitEstimate()
    assert wait_estimate.wait_s(leaving=1, running=4, oldest_s=8.0) == 2.0  # nobody left yet: the oldest stands for all
    for _ in range(200):
        wait_estimate.record(4.0)
    assert wait_estimate.wait_s(leaving=1, running=4, oldest_s=99.0) == pytest.approx(1.0)
    longer = wait_estimate.wait_s(leaving=1, running=4, oldest_s=99.0, age_s=12.0)
    assert longer == pytest.approx(3.0)  # all that run have outstayed those before them
    assert wait_estimate.wait_s(leaving=8, running=4, oldest_s=99.0) == pytest.approx(8.0)
    assert wait_estimate.wait_s(leaving=0, running=4, oldest_s=99.0) == 0.0
    assert wait_estimate.wait_s(leaving=8, running=0, oldest_s=0.0) == pytest.approx(32.0)


async def test_a_prompt_made_for_another_version_of_the_model_is_refused(model: LoadedModel) -> None:
    async with serving(model) as engine:
        await run(engine, a_job(model, "the", version=model.version))
        with pytest.raises(Overloaded, match="was replaced"):
            await engine.generate(a_job(model, "the", version="older"))


# --- everything at random ------------------------------------------------------------------------------------------

Traffic = tuple[int, int, int, int, str, int, float | None, int | None]
traffic = st.lists(
    st.tuples(
        st.integers(0, 10),  # milliseconds before it comes
        st.integers(1, 40),  # prompt
        st.integers(1, 30),  # tokens to generate
        st.integers(1, 3),  # choices
        st.sampled_from("abc"),
        st.sampled_from([0, 0, 5, 10]),
        st.sampled_from([None, None, 0.0, 0.005, 0.05]),  # deadline
        st.sampled_from([None, None, 0, 3]),  # pieces after which the client leaves
    ),
    min_size=1,
    max_size=12,
)


async def _one(engine: Engine, model: LoadedModel, index: int, what: Traffic) -> str:
    after_ms, prompt, output, n, tenant, priority, deadline_s, leaves_after = what
    await asyncio.sleep(after_ms / 1000)
    fields = {"tenant": tenant, "priority": priority, "deadline_s": deadline_s, "seed": index}
    job = a_job(model, prompts([prompt])[0], n=n, max_tokens=output, temperature=1.0, **fields)
    seen = 0
    try:
        generation = await engine.generate(job)
        async for piece in generation:
            seen += 1
            if leaves_after is not None and seen > leaves_after:
                generation.cancel()
            if piece.finish_reason is not None:
                n -= 1
    except (DeadlineExceeded, Overloaded) as error:
        return type(error).__name__
    assert n == 0, "every choice ends with a finish reason"
    return "ended"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arriving=traffic)
def test_random_traffic_always_comes_to_an_end_and_leaves_nothing(model: LoadedModel, arriving: list[Traffic]) -> None:
    """Tiny pool, tiny steps; requests that come, leave, run out of time, at random."""

    async def everything() -> Counter[str]:
        async with serving(model, num_blocks=18, max_batch_tokens=9, max_waiting=8) as engine:
            async with asyncio.timeout(60):
                ends = await asyncio.gather(*[_one(engine, model, i, what) for i, what in enumerate(arriving)])
            await soon(lambda: not core_of(engine).has_work)
            pool = core_of(engine).scheduler.pool
            assert pool.free_count == pool.num_blocks
            assert engine.stats()["requests_waiting"] == 0
            return Counter(ends)

    assert sum(asyncio.run(everything()).values()) == len(arriving)


# --- the watchdog --------------------------------------------------------------------------------------------------


async def test_a_wedged_thread_is_replaced_and_says_where_it_was(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The request fails; the next is answered by a new thread; what the old one still does, nobody sees."""
    release = threading.Event()
    healthy = a_job(model, "the", ignore_eos=True)
    async with serving(model, watchdog_s=1.0) as engine:
        expected = (await run(engine, healthy))[0].tokens
        old, runner = engine._worker, core_of(engine)._runner

        def wedge(batch: Batch) -> torch.Tensor:
            release.wait()
            raise RuntimeError("too late")

        monkeypatch.setattr(runner, "run", wedge)
        with caplog.at_level(logging.CRITICAL), pytest.raises(GenerationFailed, match="made no progress"):
            await run(engine, healthy)
        assert (await run(engine, healthy))[0].tokens == expected
        assert engine.stats()["engine_restarts_total"] == 1
        assert engine.stats()["tokens_generated_total"] == 24
        release.set()
        assert old._thread is not None
        await asyncio.to_thread(old._thread.join, 10)
        assert not old._thread.is_alive()
        assert (await run(engine, healthy))[0].tokens == expected
    assert "in wedge" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_dies_is_replaced(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise SystemExit

    async with serving(model, watchdog_s=1.0) as engine:
        monkeypatch.setattr(core_of(engine).scheduler, "schedule", die)
        with pytest.raises(GenerationFailed, match="restarted"):
            await run(engine, a_job(model, "the"))
        assert (await run(engine, a_job(model, "the")))[0].reasons[0] is not None
        monkeypatch.setattr(core_of(engine).scheduler, "schedule", die)
        vectors = asyncio.create_task(engine.embed([[1] * 500] * 40))
        with pytest.raises(GenerationFailed, match="restarted"):
            await run(engine, a_job(model, "the"))
        with pytest.raises(GenerationFailed, match="restarted"):
            await vectors
        assert engine.stats()["engine_restarts_total"] == 2


# --- memory --------------------------------------------------------------------------------------------------------


async def test_requests_that_have_ended_leave_no_object_behind(model: LoadedModel) -> None:
    """Answered, cancelled, failed, out of time: of none of them anything stays, and sixty more leave as many objects
    as there were. `python -m benchmarks.soak` shows it for ten thousand, with the resident memory."""

    async def some(engine: Engine, count: int) -> None:
        for index in range(count):
            fields = {"tenant": f"t{index % 7}", "deadline_s": (None, 0.01, 60.0)[index % 3], "seed": index}
            generation = await engine.generate(a_job(model, "the cat", n=1 + index % 2, max_tokens=6, **fields))
            if index % 5 == 0:
                generation.cancel()
            await asyncio.gather(collect(generation), return_exceptions=True)

    def alive() -> tuple[int, int]:
        gc.collect()
        objects = gc.get_objects()
        kinds = ("LiveGeneration", "Sequence", "ChoiceText", "PromptLookup", "Submission")
        return len(objects), sum(type(thing).__name__ in kinds for thing in objects)

    async def settled(at_most: int) -> tuple[int, int]:
        """Count once the engine's thread has let go of the last request, a moment after it was answered."""
        for _ in range(2000):
            if alive()[1] <= at_most:
                break
            await asyncio.sleep(0.02)
        return alive()

    gc.collect()
    gc.freeze()  # what other tests have left is neither counted nor gone through
    async with serving(model) as engine:
        await some(engine, 30)
        before, own_before = alive()
        for _ in range(3):  # what leaks does so every time; what is made once, by whatever runs beside, does not
            await some(engine, 60)
            after, own_after = await settled(own_before)
            grown, before = after - before, after
            if own_after <= own_before and grown < 60:
                break
    gc.unfreeze()
    assert own_after <= own_before
    assert grown < 60, "less than one object a request"


# --- threads end before the interpreter does -----------------------------------------------------------------------


def _threads_of_the_engine() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith(("engine", "forward-", "grammars", "masks"))}


async def test_close_leaves_no_thread_behind(model: LoadedModel) -> None:
    """Neither the engine's nor those that help it: whoever comes out of compiled code while the interpreter ends
    aborts the process."""
    before = _threads_of_the_engine()
    async with serving(model, threads=2, max_batch_size=8) as engine:
        costly = CostlyGrammar([{40, 41}, {50}, {60}], needs=0.05)
        await run(engine, *[a_job(model, "the", grammar=costly) for _ in range(4)])
        names = {one.name for one in _threads_of_the_engine() - before}
        assert {"engine", "forward-1", "grammars"} <= names
        open_ended = await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True))
        open_ended.cancel()
    assert _threads_of_the_engine() <= before


_LEAVES_IN_THE_MIDDLE = """
import asyncio, sys
from sluicegate.engine import Engine, EngineSettings, load_model
from sluicegate.plugins import Job, Prompt, Sampling

async def main():
    model = load_model(sys.argv[1])
    engine = Engine(EngineSettings(threads=1, num_blocks=64, watchdog_s=None), [model])
    await engine.start()
    sampling = Sampling(max_tokens=400, ignore_eos=True)
    jobs = [Job(str(n), model.name, Prompt("", (5, 6, 7)), sampling) for n in range(4)]
    generations = [await engine.generate(job) for job in jobs]
    async for piece in generations[0]:
        sys.exit(7)

asyncio.run(main())
"""


def test_a_process_that_leaves_without_close_ends_as_it_meant_to(tiny_folder: Callable[..., Path]) -> None:
    """In the middle of a step, and without a word to the engine: no signal, and not the thread's own error."""
    done = subprocess.run(
        [sys.executable, "-c", _LEAVES_IN_THE_MIDDLE, str(tiny_folder("llama"))], capture_output=True, text=True
    )
    assert done.returncode == 7, done.stderr[-2000:]
