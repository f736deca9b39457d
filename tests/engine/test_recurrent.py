"""Layers that keep a state of each sequence, beside paged attention: linear attention, state spaces, convolutions.

Answers are those of `generate`, however the work was cut; a state is never another sequence's, and never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings, load_model
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.attention.recurrent import StateStep, advancing
from sluicegate.engine.batching.batch import Batch
from sluicegate.engine.construction import make_core
from sluicegate.engine.cpu import CpuSmallLinear
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.memory.states import StateKey, StatePool, StatePositionError, StateShape
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.plugins import GenerationFailed, ModelLoadError, RequestError
from tests.engine.conftest import MakeModel
from tests.engine.driving import (
    ScriptedGrammar,
    a_job,
    collect,
    greedy_by_transformers,
    logprobs_by_transformers,
    prompts,
    run,
    serving,
)
from tests.engine.lora import write_adapter
from tests.engine.tiny_models import EOS, RECURRENT, save_tiny

LENGTHS = (1, 17, 33, 16)
TOKENS = 12
Folder = Callable[..., Path]


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("qwen3_next")


def core_of(engine: Engine) -> EngineCore:
    return next(iter(engine._registry.cores))


# --- the same answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", RECURRENT)
async def test_every_way_of_batching_gives_the_answer_of_transformers(
    family: str, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """Alone; mixed with others, and a second time from kept states; prompts in chunks of at most 10 tokens; blocks so
    scarce that sequences are preempted and computed again; without a cache of prefixes."""
    model, asked = tiny(family), prompts(LENGTHS)
    expected = [greedy_by_transformers(tiny_folder(family), prompt, TOKENS) for prompt in asked]
    jobs = [a_job(model, prompt, max_tokens=TOKENS) for prompt in asked]
    async with serving(model, max_batch_size=6, max_batch_tokens=512) as engine:
        alone = [(await run(engine, job))[0].tokens[0] for job in jobs]
        mixed = [result.tokens[0] for result in await run(engine, *jobs)]
        again = [result.tokens[0] for result in await run(engine, *jobs)]
        assert engine.stats()["prefix_cache_hit_tokens_total"] > 0
    async with serving(model, max_batch_size=6, prefix_caching=False) as engine:
        apart = [result.tokens[0] for _ in "ab" for result in await run(engine, *jobs)]
        assert engine.stats()["prefix_cache_hit_tokens_total"] == 0
    async with serving(model, max_batch_size=6, max_batch_tokens=10) as engine:
        chunked = [result.tokens[0] for result in await run(engine, *jobs)]
    async with serving(model, max_batch_size=6, num_blocks=14) as engine:
        scarce = [result.tokens[0] for result in await run(engine, *jobs)]
        assert engine.stats()["preemptions_total"] > 0
        assert engine.stats()["kv_cache_usage_ratio"] == 0
    assert (alone, mixed, again, chunked, scarce) == (expected,) * 5
    assert apart == expected * 2


@pytest.mark.parametrize("family", RECURRENT)
async def test_logprobs_are_those_of_the_model(family: str, tiny: MakeModel, tiny_folder: Folder) -> None:
    """Within 1e-4 of a plain forward pass, though the prompt was read in chunks of 7."""
    model, prompt = tiny(family), prompts([21])[0]
    async with serving(model, max_batch_tokens=7) as engine:
        result = (await run(engine, a_job(model, prompt, temperature=1.5, seed=3, logprobs=1, ignore_eos=True)))[0]
    tokens = result.tokens[0]
    expected = logprobs_by_transformers(tiny_folder(family), prompt + tokens)[len(prompt) - 1 :]
    assert [found.logprob for found in result.logprobs[0]] == pytest.approx(
        [float(expected[at, token]) for at, token in enumerate(tokens)], abs=1e-4
    )


async def test_seeded_choices_do_not_depend_on_company(model: LoadedModel) -> None:
    """Three drawn choices of one prompt, beside others and by themselves."""
    job = a_job(model, prompts([19])[0], n=3, temperature=1.0, seed=7, max_tokens=TOKENS)
    async with serving(model, max_batch_size=6) as engine:
        alone = (await run(engine, job))[0].tokens
        beside = await run(engine, job, *[a_job(model, prompt, max_tokens=30) for prompt in prompts([9, 26, 3])])
    assert beside[0].tokens == alone
    assert len({tuple(tokens) for tokens in alone}) == 3


async def test_a_constrained_answer_is_the_likeliest_that_the_grammar_allows(
    model: LoadedModel, tiny_folder: Folder
) -> None:
    """Choices between three tokens, and runs that are forced and so computed several at once."""
    prompt, script = prompts([13])[0], [{5, 77, 140}, {9}, {8}, {7}, {61, 62, 63}, {201, 20, 2}, {4}, {33, 34}]
    expected: list[int] = []
    for allowed in script:
        scores = logprobs_by_transformers(tiny_folder("qwen3_next"), prompt + expected)[-1]
        expected.append(max(allowed, key=lambda token: float(scores[token])))
    job = a_job(model, prompt, grammar=ScriptedGrammar(script, EOS, forced=True))
    others = [a_job(model, other, ignore_eos=True, max_tokens=20) for other in prompts([4, 30])]
    async with serving(model, max_batch_tokens=9) as engine:
        results = await run(engine, others[0], job, others[1])
    assert results[1].tokens[0] == expected


async def test_rounded_weights_are_served_too(tiny_folder: Folder) -> None:
    """In 8 bits, all but convolutions and decays: a prompt read in chunks has the logprobs of one read at once."""
    model, prompt = load_model(tiny_folder("qwen3_next"), name="small", weights="int8"), prompts([21])[0]
    found = []
    for settings in ({"max_batch_tokens": 64}, {"max_batch_tokens": 9}):
        async with serving(model, **settings) as engine:
            job = a_job(model, prompt, logprobs=4, max_tokens=1, ignore_eos=True)
            found.append((await run(engine, job))[0].logprobs[0][0])
    assert found[0].token_id == found[1].token_id
    assert found[0].logprob == pytest.approx(found[1].logprob, abs=0.1)
    assert isinstance(model.module.model.layers[0].linear_attn.in_proj_qkvz, CpuSmallLinear)


# --- coming and going ----------------------------------------------------------------------------------------------


async def test_a_cancelled_sequence_leaves_its_place_to_the_next(model: LoadedModel) -> None:
    """More requests than places, most of them cancelled while they run: those that stay are not disturbed."""
    job = a_job(model, prompts([18])[0], max_tokens=40, ignore_eos=True)
    async with serving(model, max_batch_size=3) as engine:
        expected = (await run(engine, job))[0].tokens
        for _ in range(3):
            gone = [await engine.generate(a_job(model, other, max_tokens=60)) for other in prompts([5, 23, 8])]
            staying = asyncio.ensure_future(run(engine, job))
            await anext(aiter(gone[0]))
            for generation in gone:
                generation.cancel()
            assert (await staying)[0].tokens == expected
        assert engine.stats()["kv_cache_usage_ratio"] == 0
        assert sorted(core_of(engine).scheduler._free_state_slots) == [0, 1, 2]


async def test_a_pass_that_throws_after_some_layers_is_run_again_from_the_same_states(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last layer raises for one request: what the first layers have computed by then is not kept, so the others'
    answers are what they are alone."""
    healthy = [a_job(model, prompt, max_tokens=20, ignore_eos=True) for prompt in prompts([11, 24])]
    async with serving(model) as engine:
        expected = [result.tokens for result in await run(engine, *healthy)]
        runner, thrown = core_of(engine)._runner, 0
        run_batch, last = runner.run, model.module.model.layers[-1]

        def watch(batch: Batch, wanted: object = None) -> torch.Tensor:
            nonlocal thrown
            is_hit = any(row.sequence.tokens[0] == 99 and row.start > 3 for row in batch.rows)
            thrown += is_hit
            hook = last.register_forward_hook(_throw) if is_hit else None
            try:
                return run_batch(batch)
            finally:
                if hook is not None:
                    hook.remove()

        monkeypatch.setattr(runner, "run", watch)
        generations = [await engine.generate(job) for job in (healthy[0], a_job(model, [99, 1, 2]), healthy[1])]
        results = await asyncio.gather(*map(collect, generations), return_exceptions=True)
    assert thrown == 2  # together with others, and alone
    assert isinstance(results[1], GenerationFailed)
    assert [r.tokens for r in (results[0], results[2])] == expected  # type: ignore[union-attr]


def _throw(*_: object) -> None:
    raise RuntimeError("out of memory")


async def test_a_state_of_nan_is_not_the_next_ones(model: LoadedModel) -> None:
    """All states are NaN before a request comes that goes on from nothing kept: it begins with zeros."""
    job = a_job(model, prompts([9])[0])
    async with serving(model, prefix_caching=False) as engine:
        expected = (await run(engine, job))[0].tokens
        states = core_of(engine)._runner._recurrent
        assert states is not None
        for tensor in states._tensors.values():
            tensor.fill_(float("nan"))
        assert (await run(engine, job))[0].tokens == expected


# --- the pool ------------------------------------------------------------------------------------------------------

KEY = StateKey(0, "conv")


def _pool() -> StatePool:
    return StatePool([StateShape(KEY, (2, 3), torch.float32)], 4, torch.device("cpu"))


def _stretch(start: int, count: int, place: int) -> TokenSpan:
    return TokenSpan(start, count, None, 0, place)  # type: ignore[arg-type]  # tables are for attention


def _shift(rows: torch.Tensor, states: StateStep) -> torch.Tensor:
    """Compute a layer that puts its inputs behind what it kept, and gives back the oldest."""
    full = states.update_conv_state(rows.transpose(1, 2), 0)  # type: ignore[attr-defined]
    return full[..., : rows.shape[1]].transpose(1, 2)


def test_rows_of_a_step_read_and_write_their_own_states() -> None:
    """Two sequences of one token and one of three in a flattened row, as three calls by themselves."""
    hidden = torch.arange(10.0).view(1, 5, 2)
    apart, together = _pool(), _pool()
    rows = [_stretch(0, 1, 2), _stretch(0, 1, 0), _stretch(0, 3, 1)]
    for _ in range(2):
        at, parts = 0, []
        for row in rows:
            with advancing(apart, [row]):
                parts.append(StateStep.mix(step_of(), _shift, hidden[:, at : (at := at + row.count)]))
        with advancing(together, rows):
            assert torch.equal(StateStep.mix(step_of(), _shift, hidden), torch.cat(parts, 1))
        rows = [row._replace(start=row.end) for row in rows]
    assert torch.equal(together._tensors[KEY], apart._tensors[KEY])
    assert not together._tensors[KEY][3].any()


def step_of() -> StateStep:
    from sluicegate.engine.attention.recurrent import recurrent_step

    found = recurrent_step()
    assert isinstance(found, StateStep)
    return found


def test_a_step_that_does_not_go_on_where_the_states_are_is_refused() -> None:
    """States reached 3 tokens: a step from 2 (again) or from 4 (a gap) is refused, one from 3 or from 0 is not."""
    pool = _pool()
    with advancing(pool, [_stretch(0, 3, 1)]):
        pass
    for start in (2, 4):
        with pytest.raises(StatePositionError, match=f"cover 3 tokens, and the step begins at {start}"):
            StateStep(pool, [_stretch(start, 1, 1)])
    StateStep(pool, [_stretch(3, 1, 1)])
    StateStep(pool, [_stretch(0, 1, 1)])


def test_a_step_that_raises_keeps_no_state() -> None:
    pool = _pool()

    def half_a_step() -> None:
        with advancing(pool, [_stretch(0, 3, 1)]):
            step_of().mix(_shift, torch.ones(1, 3, 2))
            _throw()

    with pytest.raises(RuntimeError, match="out of memory"):
        half_a_step()
    assert not pool._tensors[KEY].any()
    with pytest.raises(StatePositionError):
        pool.check(1, 3)


# --- what they count, and what is refused --------------------------------------------------------------------------


def test_states_are_counted_against_the_cache(model: LoadedModel) -> None:
    """The bytes of a full batch's states are taken off the cache's before blocks are counted; where nothing is left the
    model is refused."""
    block, states = 4 * model.kv_bytes_per_token, 3 * model.state_bytes
    assert states > 0
    settings = EngineSettings(block_size=4, max_batch_size=3, max_batch_tokens=64, kv_cache_bytes=states + 9 * block)
    core = make_core(model, settings, Outbox())
    assert core.scheduler.pool.num_blocks == 9
    assert core._runner._recurrent is not None
    assert core._runner._recurrent.nbytes == states
    core.close()
    with pytest.raises(ModelLoadError, match="lower max_batch_size, or raise kv_cache_bytes"):
        make_core(model, replace(settings, kv_cache_bytes=states), Outbox())


def test_a_note_and_the_log_say_what_is_kept_and_what_is_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        model = load_model(save_tiny(tmp_path, "lfm2"), name="m")
    (note,) = model.notes
    assert f"{model.state_bytes:,} bytes are kept of each sequence" in note
    assert "nothing is guessed ahead" in note
    assert f"m {note}" in caplog.text


async def test_a_beam_search_is_refused(model: LoadedModel) -> None:
    async with serving(model) as engine:
        with pytest.raises(RequestError, match="recurrent layers, whose states are not copied for each beam"):
            await engine.generate(a_job(model, [1, 2, 3], n=2, use_beam_search=True))


async def test_embeddings_are_refused(model: LoadedModel) -> None:
    async with serving(model) as engine:
        with pytest.raises(RequestError, match="recurrent layers and embeds no texts"):
            await engine.embed([[1, 2, 3]])


@pytest.mark.parametrize("families", [("qwen3_next", "llama"), ("llama", "qwen3_next")])
async def test_guessing_with_a_draft_model_is_refused_on_either_side(
    families: tuple[str, str], tiny_folder: Folder
) -> None:
    main, draft = (str(tiny_folder(family)) for family in families)
    engine = Engine(EngineSettings(threads=1, num_blocks=16), [])
    with pytest.raises(ModelLoadError, match="cannot go back behind a wrong guess"):
        await engine.add_model(ModelSettings(main, name="m", draft=draft))


def test_an_adapter_on_a_recurrent_layer_is_refused(model: LoadedModel, tiny_folder: Folder, tmp_path: Path) -> None:
    """Such a layer is called for some of a step's rows; one on attention is served."""
    base = tiny_folder("qwen3_next")
    attends = write_adapter(tmp_path / "a", base, ("model.layers.1.self_attn.q_proj",))
    assert load_lora(model, str(attends), "a").factors
    mixes = write_adapter(tmp_path / "b", base, ("model.layers.0.linear_attn.out_proj",))
    with pytest.raises(ModelLoadError, match="does not give one row for each token"):
        load_lora(model, str(mixes), "b")
