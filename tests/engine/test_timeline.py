"""What a generation says of itself: when its parts happened, and how each token came about."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, collect, run, serving
from tests.engine.tiny_models import EOS

SCRIPT = [{5}, {6}, {7, 8, 9}, {10}, {11, 12}, {13}]


async def test_the_parts_of_a_generation_follow_each_other(tiny: MakeModel) -> None:
    model = tiny("llama")
    async with serving(model) as engine:
        generation = await engine.generate(a_job(model, "the", max_tokens=9, ignore_eos=True))
        await collect(generation)
    told = generation.timeline
    assert told.started_s is not None
    assert told.first_token_s is not None
    assert told.ended_s is not None
    assert told.queued_s <= told.started_s < told.first_token_s < told.ended_s
    assert told.tokens == 9
    assert (told.steps, told.preempted_s) == ([], [])


async def test_every_token_is_described_where_asked_for(tiny: MakeModel) -> None:
    """Forced tokens have no mask and no logprob; drawn ones have both, and the mask's share is exact."""
    model = tiny("llama")
    job = a_job(model, "the", grammar=ScriptedGrammar(SCRIPT, EOS, forced=True))
    async with serving(model) as engine:
        plain = (await run(engine, job))[0]
        generation = await engine.generate(replace(job, explain=True))
        explained = await collect(generation)
    assert explained.tokens == plain.tokens
    assert explained.logprobs == [[]]
    steps = generation.timeline.steps
    assert [step.token_id for step in steps] == plain.tokens[0]
    assert [step.forced for step in steps] == [len(allowed) == 1 for allowed in SCRIPT]
    for step, allowed in zip(steps, SCRIPT, strict=True):
        if step.forced:
            assert (step.masked_share, step.logprob) == (None, None)
        else:
            assert step.masked_share == 1 - len(allowed) / model.vocab_size
            assert step.logprob is not None
            assert step.logprob < 0
    assert generation.timeline.forced == sum(step.forced for step in steps)
    assert generation.timeline.mask_s > 0


async def test_guesses_and_preemptions_are_counted_for_the_request_they_belong_to(tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [a_job(model, [1, 2, 3, 4] * 5 + [i], max_tokens=30, ignore_eos=True, seed=i) for i in range(6)]
    async with serving(model, max_batch_size=6, max_batch_tokens=9, num_blocks=20, drafts_per_step=64) as engine:
        generations = [await engine.generate(job) for job in jobs]
        for generation in generations:
            await collect(generation)
        stats = engine.stats()
    lines = [generation.timeline for generation in generations]
    assert sum(len(line.preempted_s) for line in lines) == stats["preemptions_total"] > 0
    assert sum(line.drafted for line in lines) == stats["tokens_drafted_total"] > 0
    assert sum(line.accepted for line in lines) == stats["tokens_accepted_total"]
