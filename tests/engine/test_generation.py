"""What the gateway may rely on: choices, seeds, ends, constraints, cancellation, failures, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.batching.batch import Batch
from sluicegate.plugins import (
    ContextLengthExceeded,
    GenerationFailed,
    Generator,
    Lifecycle,
    NotFound,
    Overloaded,
    RequestError,
)
from tests.engine.conftest import MakeModel
from tests.engine.driving import (
    ScriptedGrammar,
    ScriptedMatcher,
    a_job,
    collect,
    core_of,
    greedy_by_transformers,
    prompts,
    run,
    serving,
)
from tests.engine.tiny_models import EOS
from tests.waiting import LIMIT_S, soon, until

Folder = Callable[..., Path]


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


# --- text, choices, seeds ------------------------------------------------------------------------------------------


async def test_text_is_the_decoded_tokens_and_usage_counts_them(model: LoadedModel) -> None:
    async with serving(model) as engine:
        result = (await run(engine, a_job(model, "the cat", ignore_eos=True)))[0]
    assert result.text[0] == model.tokenizer.decode(result.tokens[0], skip_special_tokens=True)
    assert result.reasons == ["length"]
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (5, 12)


async def test_the_same_seed_gives_the_same_answer_whatever_else_runs(model: LoadedModel) -> None:
    """Alone, with others of all kinds, in chunks, and preempted."""
    mine = a_job(model, "the cat", n=2, temperature=1.0, seed=11, top_p=0.95, max_tokens=20, ignore_eos=True)
    others = [
        a_job(model, prompt, temperature=1.2, seed=i, max_tokens=20, ignore_eos=True, top_k=i)
        for i, prompt in enumerate(prompts([3, 30, 18, 9]))
    ]
    async with serving(model) as engine:
        alone = (await run(engine, mine))[0].tokens
    async with serving(model, max_batch_size=8) as engine:
        crowded = (await run(engine, *others, mine))[-1].tokens
    async with serving(model, max_batch_size=6, max_batch_tokens=7, num_blocks=20, prefix_caching=False) as engine:
        scarce = (await run(engine, mine, *others))[0].tokens
        assert engine.stats()["preemptions_total"] > 0
    assert alone == crowded == scarce
    assert alone[0] != alone[1]


async def test_without_a_seed_answers_differ(model: LoadedModel) -> None:
    job = a_job(model, "the cat", temperature=1.5, max_tokens=20, ignore_eos=True)
    async with serving(model) as engine:
        first, second = await run(engine, job, job)
    assert first.tokens != second.tokens


async def test_choices_share_the_prompts_blocks(model: LoadedModel) -> None:
    prompt = prompts([40])[0]
    async with serving(model, max_batch_size=8) as engine:
        result = (await run(engine, a_job(model, prompt, n=4, ignore_eos=True)))[0]
        stats = engine.stats()
    assert result.tokens == [result.tokens[0]] * 4
    assert stats["prefix_cache_hit_tokens_total"] == 3 * 36
    assert result.usage.prompt_tokens == 40
    assert result.usage.completion_tokens == 48


async def test_a_second_request_reports_its_cached_tokens(model: LoadedModel) -> None:
    prompt = prompts([41])[0]
    async with serving(model) as engine:
        first = (await run(engine, a_job(model, prompt)))[0]
        second = (await run(engine, a_job(model, prompt)))[0]
        foreign = (await run(engine, a_job(model, prompt, tenant="other")))[0]
    assert (first.usage.cached_tokens, second.usage.cached_tokens, foreign.usage.cached_tokens) == (0, 40, 0)
    assert first.tokens == second.tokens == foreign.tokens


# --- how a choice ends ---------------------------------------------------------------------------------------------


async def test_an_end_of_sequence_token_ends_it_and_does_not_show(tiny: MakeModel, tiny_folder: Folder) -> None:
    model = tiny("llama")
    enders = [
        prompt for prompt in prompts(range(1, 40)) if len(greedy_by_transformers(tiny_folder("llama"), prompt, 12)) < 12
    ]
    assert enders, "of forty prompts some must end by themselves"
    async with serving(model) as engine:
        plain = (await run(engine, a_job(model, enders[0])))[0]
        ignoring = (await run(engine, a_job(model, enders[0], ignore_eos=True)))[0]
        patient = (await run(engine, a_job(model, enders[0], min_tokens=12)))[0]
    assert plain.reasons == ["stop"]
    assert EOS not in plain.tokens[0]
    assert plain.usage.completion_tokens == len(plain.tokens[0]) + 1
    assert (ignoring.reasons, len(ignoring.tokens[0])) == (["length"], 12)
    assert EOS in ignoring.tokens[0]
    assert (patient.reasons, len(patient.tokens[0])) == (["length"], 12)
    assert EOS not in patient.tokens[0]


async def test_a_stop_string_across_token_borders_is_cut_off(model: LoadedModel) -> None:
    """Every two-character string of the answer as a stop string: the text ends just before it, and the tokens and
    logprobs delivered are those that reach into what is left."""
    async with serving(model, max_batch_size=16) as engine:
        whole = (await run(engine, a_job(model, "x", max_tokens=24, ignore_eos=True)))[0].text[0]
        for at in range(len(whole) - 1):
            stop = whole[at : at + 2]
            result = (await run(engine, a_job(model, "x", max_tokens=24, ignore_eos=True, stop=(stop,), logprobs=0)))[0]
            expected = whole[: whole.index(stop)]
            assert result.text[0] == expected
            assert result.reasons == ["stop"]
            assert [entry.token_id for entry in result.logprobs[0]] == result.tokens[0]
            spelled = b"".join(entry.data for entry in result.logprobs[0]).decode("utf-8", "replace")
            assert spelled.startswith(expected) or not expected
        assert engine.stats()["kv_cache_usage_ratio"] == 0


async def test_the_context_is_never_exceeded(model: LoadedModel) -> None:
    async with serving(model, num_blocks=8) as engine:
        result = (await run(engine, a_job(model, prompts([20])[0], max_tokens=None, ignore_eos=True)))[0]
        assert len(result.tokens[0]) == 8 * 4 - 20
        with pytest.raises(ContextLengthExceeded, match=r"32 tokens.*holds 32"):
            await engine.generate(a_job(model, prompts([32])[0]))


# --- constraints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forced", [False, True])
async def test_a_grammar_decides_what_may_be_drawn(model: LoadedModel, forced: bool) -> None:
    """Unmasked neighbours, several seeds; with and without forced tokens the answer obeys the script."""
    script = [{5}, {6}, {7, 8, 9}, {10}, {11, 12}, {13}]
    jobs = [
        a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), temperature=2.0, seed=seed)
        for seed in range(6)
    ]
    async with serving(model, max_batch_size=8) as engine:
        *constrained, free = await run(engine, *jobs, a_job(model, "the", ignore_eos=True))
        alone = (await run(engine, a_job(model, "the", ignore_eos=True)))[0]
        assert (engine.stats()["tokens_forced_total"] > 0) == forced
    for result in constrained:
        assert all(token in allowed for token, allowed in zip(result.tokens[0], script, strict=True))
        assert result.reasons == ["stop"]
    assert len({tuple(result.tokens[0]) for result in constrained}) > 1
    assert free.tokens == alone.tokens


async def test_forced_tokens_change_nothing_but_the_number_of_steps(model: LoadedModel) -> None:
    script = [{5}, {6}, {7, 8, 9}, {10}, {11}, {12}, set(range(20, 200)), {13}, {14}]

    async def answer(*, forced: bool) -> tuple[list[list[int]], float]:
        async with serving(model, draft_tokens=0) as engine:
            job = a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), max_tokens=40)
            return (await run(engine, job))[0].tokens, engine.stats()["steps_total"]

    (jumped, few), (stepped, many) = await answer(forced=True), await answer(forced=False)
    assert jumped == stepped
    assert few < many


async def test_forced_tokens_stop_at_max_tokens_and_at_stop_strings(model: LoadedModel) -> None:
    script = [{token} for token in model.tokenizer.encode("hello world", add_special_tokens=False)]
    grammar = ScriptedGrammar(script, EOS, forced=True)
    async with serving(model) as engine:
        short = (await run(engine, a_job(model, "x", grammar=grammar, max_tokens=4)))[0]
        stopped = (await run(engine, a_job(model, "x", grammar=grammar, stop=("o w",))))[0]
        whole = (await run(engine, a_job(model, "x", grammar=grammar, n=2)))[0]
        assert engine.stats()["kv_cache_usage_ratio"] == 0
    assert (short.text, short.reasons) == (["hell"], ["length"])
    assert (stopped.text, stopped.reasons) == (["hell"], ["stop"])
    assert (whole.text, whole.reasons) == (["hello world"] * 2, ["stop"] * 2)


async def test_logprobs_of_a_constrained_answer_cover_every_token(model: LoadedModel) -> None:
    grammar = ScriptedGrammar([{5}, {6}, {7, 8}], EOS, forced=True)
    async with serving(model) as engine:
        result = (await run(engine, a_job(model, "x", grammar=grammar, logprobs=2)))[0]
    assert [entry.token_id for entry in result.logprobs[0]] == result.tokens[0]
    assert len(result.tokens[0]) == 3


# --- failures hurt nobody else -------------------------------------------------------------------------------------


class BrokenMatcher(ScriptedMatcher):
    """Throws in the named method once two tokens were accepted."""

    where = "fill_mask"

    def fill_mask(self, row: Any) -> bool:
        self._maybe("fill_mask")
        return super().fill_mask(row)

    def accept(self, token_id: int) -> None:
        self._maybe("accept")
        super().accept(token_id)

    def _maybe(self, where: str) -> None:
        if self.where == where and len(self.accepted) == 2:
            raise ValueError("the grammar broke")


class BrokenGrammar(ScriptedGrammar):
    where = "fill_mask"

    def matcher(self) -> ScriptedMatcher:
        if self.where == "matcher":
            raise ValueError("the grammar broke")
        broken = BrokenMatcher(self)
        broken.where = self.where
        return broken


@pytest.mark.parametrize("where", ["matcher", "fill_mask", "accept"])
async def test_a_matcher_that_throws_fails_its_own_request_alone(model: LoadedModel, where: str) -> None:
    grammar = BrokenGrammar([{5}, {6}, {7}, {8}], EOS)
    grammar.where = where
    async with serving(model) as engine:
        healthy = a_job(model, "the", ignore_eos=True, max_tokens=20)
        expected = (await run(engine, healthy))[0]
        generation, broken = await engine.generate(healthy), await engine.generate(a_job(model, "a", grammar=grammar))
        both = await asyncio.gather(collect(generation), collect(broken), return_exceptions=True)
        stats = engine.stats()
    assert isinstance(both[1], GenerationFailed)
    assert "the grammar broke" in both[1].cause
    assert "the grammar broke" not in both[1].message
    assert not isinstance(both[0], BaseException)
    assert both[0].tokens == expected.tokens
    assert (stats["requests_running"], stats["kv_cache_usage_ratio"]) == (0, 0)


async def test_a_failure_leaves_the_blocks_it_shared_as_they_are(model: LoadedModel) -> None:
    """Two requests on the same prompt blocks, one breaks: the other goes on over them undisturbed."""
    prompt = prompts([40])[0]
    healthy = a_job(model, prompt, ignore_eos=True, max_tokens=40)
    broken = a_job(model, prompt, grammar=BrokenGrammar([set(range(200))] * 9, EOS))
    async with serving(model, draft_tokens=0) as engine:
        expected = (await run(engine, healthy))[0]
    async with serving(model, draft_tokens=0) as engine:
        generation = await engine.generate(healthy)
        pieces = aiter(generation)
        first = await anext(pieces)
        with pytest.raises(GenerationFailed):
            await run(engine, broken)
        assert engine.stats()["prefix_cache_hit_tokens_total"] > 0
        rest = [piece async for piece in pieces]
    assert [token for piece in (first, *rest) for token in piece.token_ids] == expected.tokens[0]


async def test_a_forward_pass_that_throws_fails_only_the_request_that_made_it_throw(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(model) as engine:
        healthy = a_job(model, "the", ignore_eos=True, max_tokens=20)
        expected = (await run(engine, healthy))[0]
        runner = core_of(engine)._runner
        run_batch = runner.run

        def explode(batch: Batch) -> torch.Tensor:
            if any(row.sequence.tokens[0] == 99 for row in batch.rows):
                raise RuntimeError("out of memory")
            return run_batch(batch)

        monkeypatch.setattr(runner, "run", explode)
        generations = [await engine.generate(job) for job in (healthy, a_job(model, [99, 1]), healthy)]
        results = await asyncio.gather(*map(collect, generations), return_exceptions=True)
        assert engine.stats()["kv_cache_usage_ratio"] == 0
    assert isinstance(results[1], GenerationFailed)
    assert "out of memory" in results[1].cause
    assert [r.tokens for r in (results[0], results[2])] == [expected.tokens] * 2  # type: ignore[union-attr]


async def test_nan_fails_one_request_and_poisons_no_block(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose keys, values and logits are NaN: it fails; whoever gets its blocks next is not touched."""
    async with serving(model, num_blocks=16, prefix_caching=False) as engine:
        healthy = a_job(model, prompts([9])[0], ignore_eos=True)
        expected = (await run(engine, healthy))[0]
        runner = core_of(engine)._runner
        run_batch = runner.run

        def poison(batch: Batch) -> torch.Tensor:
            logits = run_batch(batch)
            for at, row in enumerate(batch.sampled):
                if row.sequence.tokens[0] == 99:
                    logits[at, 3] = float("nan")
                    for tensor in (*runner.pool.keys, *runner.pool.values):
                        tensor[row.sequence.blocks] = float("nan")
            return logits

        monkeypatch.setattr(runner, "run", poison)
        with pytest.raises(GenerationFailed, match="nan"):
            await run(engine, a_job(model, [99] * 50))
        results = await run(engine, *[healthy] * 4)
    assert [result.tokens for result in results] == [expected.tokens] * 4


async def test_a_bug_in_a_step_ends_the_requests_and_not_the_engine(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(model) as engine:
        core = core_of(engine)
        with monkeypatch.context() as patched:
            patched.setattr(core.scheduler, "schedule", lambda: 1 / 0)
            with pytest.raises(GenerationFailed, match="send the request again") as failed:
                await run(engine, a_job(model, "the"))
            assert failed.value.cause.startswith("ZeroDivisionError: ")
        assert (await run(engine, a_job(model, "the")))[0].reasons[0] is not None


# --- coming and going ----------------------------------------------------------------------------------------------


async def test_cancelling_frees_the_blocks_within_one_step(model: LoadedModel) -> None:
    async with serving(model) as engine:
        generation = await engine.generate(a_job(model, "the", n=2, max_tokens=400, ignore_eos=True))
        core = core_of(engine)
        pieces = aiter(generation)
        await anext(pieces)
        assert engine.stats()["kv_cache_usage_ratio"] > 0
        generation.cancel()
        steps = core.counters.steps
        generation.cancel()
        await soon(lambda: engine.stats()["kv_cache_usage_ratio"] == 0)
        assert core.counters.steps - steps <= 2
        rest = [piece async for piece in pieces]
    assert sorted(piece.index for piece in rest if piece.finish_reason == "cancelled") == [0, 1]


async def test_disconnects_the_iteration_cancels(model: LoadedModel) -> None:
    async with serving(model) as engine:
        generation = await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True))

        async def consume() -> None:
            async for _ in generation:
                pass

        consumer = asyncio.create_task(consume())
        await soon(lambda: engine.stats()["requests_running"] == 1)
        consumer.cancel()
        await soon(lambda: engine.stats()["requests_running"] == 0)
        assert engine.stats()["kv_cache_usage_ratio"] == 0


async def test_cancelling_what_waits_or_has_ended_is_harmless(model: LoadedModel) -> None:
    async with serving(model, max_batch_size=1) as engine:
        long = await engine.generate(a_job(model, "the", max_tokens=300, ignore_eos=True))
        waiting = await engine.generate(a_job(model, "the", n=3))
        waiting.cancel()
        assert (await collect(waiting)).reasons == ["cancelled"] * 3
        assert engine.stats()["requests_waiting"] == 0
        long.cancel()
        await collect(long)
        long.cancel()
        assert (await run(engine, a_job(model, "the")))[0].reasons[0] is not None


async def test_random_cancellations_leave_nothing_behind(model: LoadedModel) -> None:
    async with serving(model, num_blocks=24, max_batch_tokens=9) as engine:

        async def one(index: int) -> None:
            job = a_job(model, prompts([1 + index % 17])[0], n=1 + index % 3, max_tokens=20, seed=index)
            generation = await engine.generate(job)
            async for piece in generation:
                if index % 3 == 0 and piece.token_ids and sum(piece.token_ids) % 5 == index % 5:
                    generation.cancel()

        async with asyncio.timeout(30):
            await asyncio.gather(*map(one, range(40)))
        stats = engine.stats()
        assert (stats["requests_running"], stats["requests_waiting"], stats["kv_cache_usage_ratio"]) == (0, 0, 0)
        assert not core_of(engine).has_work


async def test_closing_lets_requests_finish_and_refuses_new_ones(model: LoadedModel) -> None:
    async with serving(model) as engine:
        running = asyncio.create_task(
            collect(await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True)))
        )
        await soon(lambda: engine.stats()["requests_running"] == 1)
        await engine.close()
        assert (await running).reasons == ["length"]
        with pytest.raises(Overloaded, match="shutting down"):
            await engine.generate(a_job(model, "the"))


async def test_closing_cancels_what_does_not_finish_in_time(model: LoadedModel) -> None:
    async with serving(model, drain_s=0.0) as engine:
        running = asyncio.create_task(
            collect(await engine.generate(a_job(model, "the", max_tokens=400, ignore_eos=True)))
        )
        await soon(lambda: engine.stats()["requests_running"] == 1)
        await engine.close()
        assert (await running).reasons == ["cancelled"]


async def test_what_was_still_on_its_way_in_is_told_that_the_engine_closes(model: LoadedModel) -> None:
    engine = Engine(EngineSettings(num_blocks=32, block_size=4, drain_s=0.0), [model])
    generation = await engine.generate(a_job(model, "the", max_tokens=100, ignore_eos=True))
    assert engine.stats()["requests_waiting"] == 1
    closing = asyncio.create_task(engine.close())
    await closing
    await engine.start()
    async with asyncio.timeout(LIMIT_S):
        assert (await collect(generation)).reasons == ["cancelled"]
    assert engine.stats()["requests_waiting"] == 0
    await engine.close()


async def test_a_full_queue_refuses_with_a_time_to_come_back(model: LoadedModel) -> None:
    async with serving(model, max_batch_size=1, max_waiting=2) as engine:
        job = a_job(model, "the", max_tokens=400, ignore_eos=True)
        generations = [await engine.generate(job)]
        await soon(lambda: engine.stats()["requests_running"] == 1)
        generations += [await engine.generate(job) for _ in range(2)]
        with pytest.raises(Overloaded) as refused:
            await engine.generate(job)
        assert refused.value.retry_after_s > 0
        for generation in generations:
            generation.cancel()
            await collect(generation)


async def test_the_event_loop_is_never_blocked_by_a_step(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward pass that lasts until the loop has ticked ten times, and holds no lock: it ends."""
    async with serving(model) as engine:
        runner = core_of(engine)._runner
        run_batch = runner.run
        ticks = 0

        def slow(batch: Batch) -> torch.Tensor:
            enough = ticks + 10
            until(lambda: ticks >= enough)
            return run_batch(batch)

        monkeypatch.setattr(runner, "run", slow)
        answer = asyncio.create_task(collect(await engine.generate(a_job(model, "the", max_tokens=3))))
        while not answer.done():
            await asyncio.sleep(0.001)
            ticks += 1
        assert (await answer).reasons == ["length"]
    assert ticks >= 30


# --- refusals ------------------------------------------------------------------------------------------------------


async def test_what_can_never_run_is_refused_at_submission(model: LoadedModel) -> None:
    async with serving(model) as engine:
        with pytest.raises(RequestError, match="no tokens"):
            await engine.generate(a_job(model, []))
        with pytest.raises(RequestError, match="n is 0"):
            await engine.generate(a_job(model, "x", n=0))
        with pytest.raises(RequestError, match="temperature"):
            await engine.generate(a_job(model, "x", temperature=-1.0))
        with pytest.raises(RequestError, match="between 0 and 265"):
            await engine.generate(a_job(model, [1, 266]))
        job = a_job(model, "x")
        with pytest.raises(NotFound, match="loaded: llama"):
            await engine.generate(type(job)("id", "gpt-9", job.prompt, job.sampling))


async def test_two_models_are_served_by_one_engine(tiny: MakeModel) -> None:
    models = [tiny("llama"), tiny("gemma3")]
    engine = Engine(EngineSettings(num_blocks=32, block_size=4), models)
    await engine.start()
    results = await run(engine, *[a_job(model, "the cat") for model in models])
    await engine.close()
    assert set(engine.models) == {"llama", "gemma3"}
    assert results[0].tokens != results[1].tokens


async def test_the_engine_is_a_generator_with_a_lifecycle(model: LoadedModel) -> None:
    async with serving(model) as engine:
        as_contract: Generator = engine
        assert isinstance(engine, Lifecycle)
        assert {"requests_running", "requests_waiting", "kv_cache_usage_ratio"} <= set(as_contract.stats())
