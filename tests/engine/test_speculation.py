"""Guessing changes how fast an answer comes, never the answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluicegate.engine.sequences.drafting import LookupAcceptance
from sluicegate.engine.speculation.prompt_lookup import PromptLookup, draft
from tests.engine.conftest import MakeModel
from tests.engine.driving import (
    ScriptedGrammar,
    a_job,
    greedy_by_transformers,
    prompts,
    run,
    run_from_one_step,
    serving,
)
from tests.engine.tiny_models import EOS, FAMILIES, OTHERS

TOKENS = 30


class Scripted:
    """Proposes the known answer, but lies with probability `lies`."""

    def __init__(self, answers: dict[tuple[int, ...], list[int]], lies: float, seed: int = 0) -> None:
        self._answers = answers
        self._lies = lies
        self._random = random.Random(seed)

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        for prompt, answer in self._answers.items():
            if tuple(tokens[: len(prompt)]) == prompt:
                place = len(tokens) + len(ahead) - len(prompt)
                right = answer[place] if place < len(answer) else None
                return self._random.randrange(250) if self._random.random() < self._lies else right
        return None


KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.3, "seed": 5},
    "cut": {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "seed": 6},
    "penalised": {"temperature": 0.7, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "seed": 7},
    "logprobs": {"temperature": 1.0, "logprobs": 3, "seed": 8},
    "stopped": {"stop": ("e", "\u0000")},
    "patient": {"min_tokens": 20},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lies", [0.0, 0.3, 1.0])
async def test_right_wrong_and_mixed_guesses_give_the_same_answer(
    kind: str, lies: float, tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("qwen3")
    fields = {"max_tokens": TOKENS, **KINDS[kind]}
    jobs = [a_job(model, prompt, **fields) for prompt in prompts([3, 11, 26])]
    async with serving(model, draft_tokens=0) as engine:
        plain = await run_from_one_step(engine, model, *jobs)
        steps = engine.stats()["steps_total"]
    known = {job.prompt.token_ids: result.tokens[0] + [EOS] for job, result in zip(jobs, plain, strict=True)}
    monkeypatch.setattr("sluicegate.engine.loop.requests.PromptLookup", lambda: Scripted(known, lies))
    async with serving(model, draft_tokens=5, drafts_per_step=64) as engine:
        guessed = await run_from_one_step(engine, model, *jobs)
        stats = engine.stats()
    assert [r.tokens for r in guessed] == [r.tokens for r in plain]
    assert [r.text for r in guessed] == [r.text for r in plain]
    assert [r.reasons for r in guessed] == [r.reasons for r in plain]
    assert [r.usage.completion_tokens for r in guessed] == [r.usage.completion_tokens for r in plain]
    for with_drafts, without in zip(guessed, plain, strict=True):
        for one, other in zip(with_drafts.logprobs[0], without.logprobs[0], strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert [entry[0] for entry in one.top] == [entry[0] for entry in other.top]
    assert stats["kv_cache_usage_ratio"] == 0
    if lies == 0.0 and kind != "stopped":
        assert stats["steps_total"] < 0.6 * steps
        assert stats["tokens_accepted_total"] > 0.9 * stats["tokens_drafted_total"]


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
async def test_every_architecture_confirms_guesses(
    family: str, tiny: MakeModel, tiny_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right guesses and wrong ones among others' prompts: what `transformers` answers comes, in fewer steps."""
    model, asked = tiny(family), prompts([3, 11, 26])
    expected = [greedy_by_transformers(tiny_folder(family), prompt, TOKENS) for prompt in asked]
    known = {tuple(prompt): [*answer, EOS] for prompt, answer in zip(asked, expected, strict=True)}
    jobs = [a_job(model, prompt, max_tokens=TOKENS) for prompt in asked]
    monkeypatch.setattr("sluicegate.engine.loop.requests.PromptLookup", lambda: Scripted(known, lies=0.3))
    async with serving(model, draft_tokens=5, drafts_per_step=64, max_batch_tokens=20) as engine:
        found = [result.tokens[0] for result in await run(engine, *jobs)]
        stats = engine.stats()
    assert found == expected
    assert 0 < stats["tokens_accepted_total"] < stats["tokens_drafted_total"]


@pytest.mark.parametrize("lies", [0.0, 0.5])
@pytest.mark.parametrize("forced", [False, True])
async def test_guesses_under_a_grammar(
    forced: bool, lies: float, tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks hold at every guessed position, with forced tokens between them, and the matcher ends where it must."""
    model = tiny("llama")
    script = [{5}, {6}, set(range(40)), set(range(20, 60)), {7, 8}, {9}, {10}, {11}, set(range(200)), {12}, {13}]
    jobs = [
        a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), temperature=t, seed=3)
        for t in (0.0, 1.0, 2.0)
    ]
    async with serving(model, draft_tokens=0) as engine:
        plain = [(await run(engine, job))[0] for job in jobs]
    for job, expected in zip(jobs, plain, strict=True):
        known = {job.prompt.token_ids: expected.tokens[0]}
        monkeypatch.setattr("sluicegate.engine.loop.requests.PromptLookup", lambda known=known: Scripted(known, lies))
        async with serving(model, draft_tokens=4) as engine:
            guessed = (await run(engine, job))[0]
            accepted = engine.stats()["tokens_accepted_total"]
        assert (guessed.tokens, guessed.reasons) == (expected.tokens, ["stop"])
        assert accepted > 0 or lies > 0


async def test_guesses_with_scarce_blocks_and_small_steps(tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [a_job(model, [1, 2, 3, 4] * 5 + [i], max_tokens=TOKENS, ignore_eos=True, seed=i) for i in range(6)]
    async with serving(model, draft_tokens=0, max_batch_size=8) as engine:
        plain = [result.tokens for result in await run(engine, *jobs)]
    async with serving(model, max_batch_size=6, max_batch_tokens=9, num_blocks=20, drafts_per_step=64) as engine:
        guessed = [result.tokens for result in await run(engine, *jobs)]
        stats = engine.stats()
    assert guessed == plain
    assert stats["preemptions_total"] > 0
    assert stats["kv_cache_usage_ratio"] == 0


def test_lookup_prefers_the_longest_and_latest_occurrence() -> None:
    lookup = PromptLookup()
    tokens = [1, 2, 3, 9, 5, 2, 3, 7, 1, 2, 3]
    assert lookup.propose(tokens, []) == 9
    assert lookup.propose([*tokens[:-3], 8, 2, 3], []) == 7
    assert PromptLookup().propose([8, 4, 3, 6, 3, 7, 3], []) == 7
    assert PromptLookup().propose([1, 2], []) is None


def test_lookup_follows_its_own_guesses() -> None:
    lookup = PromptLookup()
    tokens = [1, 2, 3, 4, 5, 1, 2]
    assert draft(lookup, tokens, None, 4) == [3, 4, 5, 1]
    tokens += [3]
    assert draft(lookup, tokens, None, 2) == [4, 5]


def test_a_draft_obeys_the_grammar_and_leaves_the_matcher_where_it_was() -> None:
    matcher = ScriptedGrammar([{1}, {2}, {3, 4}, {9}, {5}], EOS, forced=True).matcher()
    matcher.accept(1)
    tokens = [2, 3, 9, 7, 1]
    assert draft(PromptLookup(), tokens, matcher, 8) == [2, 3, 9, 5]
    assert matcher.accepted == [1]
    assert draft(PromptLookup(), tokens, matcher, 0) == []


def test_guessing_that_does_not_pay_stops_and_tries_again_later() -> None:
    pace = LookupAcceptance()
    assert pace.length(6) == 4
    for _ in range(8):
        pace.record(4, 0)
    lengths = [pace.length(6) for _ in range(16)]
    assert sum(lengths) == 2
    for _ in range(8):
        pace.record(1, 1)
    assert pace.length(6) >= 5
