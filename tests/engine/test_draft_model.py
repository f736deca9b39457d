"""A draft model changes how fast an answer comes, never the answer; and it is left alone where it does not pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.sampling.outcomes import MaskRows, SampledToken
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.sequences.drafting import DraftAcceptance, draft_length
from sluicegate.engine.sequences.sequence import SequenceState
from sluicegate.engine.speculation.draft_model import ModelDrafter
from sluicegate.engine.speculation.proposer import Proposer, Speculation
from sluicegate.plugins import ModelLoadError
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, core_of, prompts, run, run_from_one_step, serving
from tests.engine.rows import a_row, a_sequence
from tests.engine.test_speculation import KINDS
from tests.engine.tiny_models import EOS, save_tiny

Folder = Callable[..., Path]
ALL: dict[str, Any] = {"prompt_lookup": False, "drafts_per_step": 64, "draft_tokens": 5}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess as far as there is room, whatever it costs: a model that guesses for itself never pays."""
    monkeypatch.setattr(DraftAcceptance, "length", lambda self, longest, cost: longest)


def drafted(model: LoadedModel, draft: LoadedModel) -> LoadedModel:
    return replace(model, draft=draft)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.usefixtures("always")
async def test_the_answer_is_the_same_with_a_good_and_a_bad_draft_model(kind: str, same: bool, tiny: MakeModel) -> None:
    """As draft model the model itself, whose guesses come true also when they are drawn; and a stranger."""
    model = tiny("qwen3")
    fields = {"max_tokens": 24, **KINDS[kind]}
    jobs = [a_job(model, prompt, **fields) for prompt in prompts([3, 11, 26])]
    async with serving(model, draft_tokens=0) as engine:
        plain = await run_from_one_step(engine, model, *jobs)
        steps = engine.stats()["steps_total"]
    async with serving(drafted(model, model if same else tiny("qwen3", 1)), **ALL) as engine:
        guessed = await run_from_one_step(engine, model, *jobs)
        stats = engine.stats()
    assert [r.tokens for r in guessed] == [r.tokens for r in plain]
    assert [r.text for r in guessed] == [r.text for r in plain]
    assert [r.reasons for r in guessed] == [r.reasons for r in plain]
    assert stats["kv_cache_usage_ratio"] == 0
    assert stats["tokens_drafted_total"] > 0
    if same and kind != "stopped":
        assert stats["tokens_accepted_total"] > 0.95 * stats["tokens_drafted_total"]
        assert stats["steps_total"] < steps


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("forced", [False, True])
async def test_guesses_stay_within_the_grammar(forced: bool, tiny: MakeModel) -> None:
    """Every place is masked for the draft model too, so a good one is right under a grammar as well."""
    model = tiny("llama")
    script = [{5}, {6}, set(range(40)), set(range(20, 60)), {7, 8}, {9}, {10}, {11}, set(range(200)), {12}, {13}]
    jobs = [
        a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), temperature=t, seed=3)
        for t in (0.0, 1.0, 2.0)
    ]
    async with serving(model, draft_tokens=0) as engine:
        plain = [result.tokens for result in await run(engine, *jobs)]
    async with serving(drafted(model, model), **ALL) as engine:
        guessed = [result.tokens for result in await run(engine, *jobs)]
        stats = engine.stats()
    assert guessed == plain
    assert stats["tokens_accepted_total"] == stats["tokens_drafted_total"] > 0


@pytest.mark.usefixtures("always")
async def test_scarce_blocks_small_steps_and_long_prompts(tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [a_job(model, prompt, max_tokens=30, ignore_eos=True) for prompt in prompts([40, 3, 29, 17, 8, 33])]
    async with serving(model, draft_tokens=0, max_batch_size=8) as engine:
        plain = [result.tokens for result in await run(engine, *jobs)]
    async with serving(drafted(model, model), **ALL, max_batch_size=6, max_batch_tokens=9, num_blocks=26) as engine:
        guessed = [result.tokens for result in await run(engine, *jobs)]
        stats = engine.stats()
        core = core_of(engine)
        group = core._proposer._batch_drafter
        assert isinstance(group, ModelDrafter)
        assert group._pool.free_count == group._pool.num_blocks
    assert guessed == plain
    assert stats["preemptions_total"] > 0
    assert stats["tokens_accepted_total"] > 0


@pytest.mark.usefixtures("always")
async def test_a_draft_model_that_breaks_is_switched_off_and_hurts_nobody(
    tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    job = a_job(model, "the", ignore_eos=True)
    async with serving(drafted(model, model), **ALL) as engine:
        core = core_of(engine)
        group = core._proposer._batch_drafter
        assert isinstance(group, ModelDrafter)
        monkeypatch.setattr(group._runner, "run", lambda batch: 1 / 0)
        broken = (await run(engine, job))[0]
        assert core._proposer._batch_drafter is None
    async with serving(model, draft_tokens=0) as engine:
        assert broken.tokens == (await run(engine, job))[0].tokens


async def test_the_stage_loads_a_draft_model_beside_its_model(tiny_folder: Folder, tmp_path: Path) -> None:
    settings = ModelSettings(str(tiny_folder("llama")), name="large", draft=str(tiny_folder("llama", 1)))
    engine = Engine(EngineSettings(models=(settings,), num_blocks=32, block_size=4))
    await engine.start()
    try:
        model: Any = engine.models["large"]
        assert model.draft.name == "llama-1"
        await run(engine, a_job(model, "the cat"))
    finally:
        await engine.close()
    other = save_tiny(tmp_path, "llama", vocab_size=320)
    with pytest.raises(ModelLoadError, match="vocabularies differ"):
        await Engine(EngineSettings(models=(replace(settings, draft=str(other)),))).start()


def test_the_length_of_a_guess_follows_what_it_costs_and_how_often_it_is_right() -> None:
    assert draft_length(0.9, 0.0, 6) == 6
    assert draft_length(0.9, 0.1, 6) >= 4
    assert draft_length(0.5, 0.3, 6) == 1
    assert draft_length(0.2, 0.5, 6) == 0
    pace = DraftAcceptance()
    for _ in range(60):
        pace.record(4, 0)
    assert pace.length(4, 0.2) == 0
    for _ in range(60):
        pace.record(1, 1)
    assert pace.length(4, 0.2) == 4


@pytest.mark.parametrize(("cost", "asked"), [(0.01, True), (0.2, True), (0.5, False)])
def test_what_was_looked_up_is_given_up_only_for_more_tokens_in_the_time(cost: float, asked: bool) -> None:
    """A lookup of one token that comes true every other time, beside a drafter that is right in seven of ten: it would
    guess further or better, but where a guess costs half a step the free one brings more."""

    class Fixed:
        seconds_a_token = 0.1 * cost

        def guess(self, wanted: Any) -> list[list[int]]:
            return [[8] * longest for _, longest in wanted]

        def release(self) -> None: ...

        def close(self) -> None: ...

    proposer = Proposer(Speculation(4), Scheduler(BlockPool(4, 4), max_batch_size=2, max_batch_tokens=8), Fixed())
    proposer.note_step(1.0)  # counts a tenth
    sequence = a_sequence([1, 2, 3])
    sequence.state, sequence.draft, sequence.lookup_acceptance.rate = SequenceState.RUNNING, [7], 0.5
    sequence.draft_acceptance = DraftAcceptance(0.7)
    proposer.improve([sequence])
    assert sequence.by_batch_drafter is asked
    assert (sequence.draft == [7]) is not asked


async def test_a_draft_model_that_does_not_pay_is_hardly_asked(tiny: MakeModel) -> None:
    """A stranger, as large as the model: after the first requests, one try in some sixty steps, for new ones too."""
    model = drafted(tiny("llama"), tiny("llama", 1))
    job = a_job(model, "the", max_tokens=150, ignore_eos=True)
    async with serving(model, **ALL) as engine:
        await run(engine, job)
        before = dict(engine.stats())
        await run(engine, job, replace(job, request_id="other"))
        after = engine.stats()
    steps = after["steps_total"] - before["steps_total"]
    assert after["tokens_drafted_total"] - before["tokens_drafted_total"] < 0.1 * 2 * steps


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.thorough)])
def test_guessed_pairs_have_the_models_own_distribution(count: int) -> None:
    """Two tokens, the second computed after a guess for the first: where the guess was wrong, it is computed again with
    the same number. Chi-square over all pairs, with two models that agree on about half of what they say."""
    vocab = 8
    generator = torch.Generator().manual_seed(1)
    first, guess = torch.randn(2, vocab, generator=generator)
    after = torch.randn(vocab, vocab, generator=generator) * 1.5
    sampler = Sampler(vocab)

    def draw(logits: torch.Tensor, position: int, of: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        rows = [everyone[at]._replace(ahead=position) for at in of]
        found = sampler.draw(logits.clone(), rows, MaskRows())
        return np.array([one.token_id for one in found if isinstance(one, SampledToken)])

    everyone = [a_row([0], temperature=1.0, seed=seed) for seed in range(count)]
    all_of_them = np.arange(count)
    guesses = draw((first + guess).repeat(count, 1), 0, all_of_them)
    drawn = draw(first.repeat(count, 1), 0, all_of_them)
    right = guesses == drawn
    seconds = np.empty(count, np.int64)
    seconds[right] = draw(after[guesses[right]], 1, np.nonzero(right)[0])
    seconds[~right] = draw(after[drawn[~right]], 1, np.nonzero(~right)[0])
    assert 0.3 < right.mean() < 0.9
    expected = torch.softmax(first, -1)[:, None] * torch.softmax(after, -1)
    found = np.zeros((vocab, vocab))
    np.add.at(found, (drawn, seconds), 1)
    statistic = float((((found - count * expected.numpy()) ** 2) / (count * expected.numpy())).sum())
    assert statistic < 63 + 3.7 * (2 * 63) ** 0.5, "63 degrees of freedom, one in ten thousand"
