"""Beam search finds what `transformers.generate` finds, however its beams were scheduled; and obeys a grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import Engine, LoadedModel
from sluicegate.plugins import RequestError
from tests.engine.conftest import MakeModel
from tests.engine.driving import (
    Result,
    ScriptedGrammar,
    ScriptedMatcher,
    a_job,
    collect,
    logprobs_by_transformers,
    prompts,
    reference_model,
    run,
    serving,
)
from tests.engine.tiny_models import EOS

Folder = Callable[..., Path]
PAD = 256
BEAM: dict[str, Any] = {"use_beam_search": True, "max_tokens": 10}


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


def beams_by_transformers(folder: Path, prompt: list[int], n: int, **asked: Any) -> list[list[int]]:
    model = reference_model(folder)
    out = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        num_return_sequences=n,
        pad_token_id=PAD,
        **asked,
    )[:, len(prompt) :].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in out]


def nothing_is_left(engine: Engine) -> bool:
    stats = engine.stats()
    return (stats["requests_running"], stats["requests_waiting"], stats["kv_cache_usage_ratio"]) == (0, 0, 0)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize(
    ("width", "n", "penalty", "early"),
    [
        (1, 1, 1.0, False),
        (4, 2, 1.0, False),
        (4, 4, 0.0, "never"),
        (3, 3, 2.0, True),
        (5, 1, -1.0, False),
        (4, 1, 1.0, "never"),
    ],
)
async def test_beams_are_those_of_transformers(
    family: str, width: int, n: int, penalty: float, early: bool | str, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """Alone and all at once, in prompts of several chunks, with beams that share a batch too small for them and a pool
    so scarce that they are preempted."""
    asked = prompts((0, 1, 9, 16, 23))[1:]
    expected = [
        beams_by_transformers(
            tiny_folder(family),
            prompt,
            n,
            num_beams=width,
            length_penalty=penalty,
            early_stopping=early,
            max_new_tokens=10,
        )
        for prompt in asked
    ]
    fields = {**BEAM, "n": n, "best_of": width, "length_penalty": penalty, "early_stopping": early}
    jobs = [a_job(tiny(family), prompt, **fields) for prompt in asked]
    async with serving(tiny(family), max_batch_size=32) as engine:
        together = [result.tokens for result in await run(engine, *jobs)]
        assert nothing_is_left(engine)
    async with serving(tiny(family), max_batch_size=3, max_batch_tokens=7, num_blocks=14) as engine:
        scarce = [result.tokens for result in await run(engine, *jobs)]
        assert nothing_is_left(engine)
    assert together == expected
    assert scarce == expected


async def test_diverse_groups_are_those_of_a_plain_search(model: LoadedModel, tiny_folder: Folder) -> None:
    """The twin keeps whole texts and computes every one anew; groups look at what earlier groups chose in the step."""
    prompt, width, groups, penalty = prompts([9])[0], 2, 3, 0.7

    def extended(tokens: list[int]) -> torch.Tensor:
        return logprobs_by_transformers(tiny_folder("llama"), prompt + tokens)[-1]

    beams = [[(0.0, [])] for _ in range(groups)]
    for _ in range(6):
        chosen: list[int] = []
        for at, group in enumerate(beams):
            options = []
            for score, tokens in group:
                values = extended(tokens)
                for token in range(len(values)):
                    options.append((score + float(values[token]) - penalty * chosen.count(token), [*tokens, token]))
            beams[at] = sorted(options, key=lambda one: -one[0])[:width]
            chosen += [tokens[-1] for _, tokens in beams[at]]
    expected = sorted((one for group in beams for one in group), key=lambda one: -one[0])
    async with serving(model, max_batch_size=8) as engine:
        job = a_job(
            model,
            prompt,
            **BEAM | {"max_tokens": 6, "ignore_eos": True, "length_penalty": 0.0, "n": 6},
            beam_groups=groups,
            diversity_penalty=penalty,
        )
        result = (await run(engine, job))[0]
    assert result.tokens == [tokens for _, tokens in expected]


async def test_a_grammar_holds_in_every_beam(model: LoadedModel, tiny_folder: Folder) -> None:
    """All texts of a small language are ranked by the model's logprob: beams wide enough find exactly that order."""
    script = [{5, 6}, {7, 8, 9}, {10}, {11, 12}]
    prompt = prompts([9])[0]

    def score(tokens: tuple[int, ...]) -> float:
        values = logprobs_by_transformers(tiny_folder("llama"), [*prompt, *tokens])[len(prompt) - 1 :]
        return sum(float(values[at, token]) for at, token in enumerate(tokens))

    ranked = sorted(product(*script), key=lambda tokens: -score(tokens))
    fields = {
        **BEAM,
        "n": 6,
        "best_of": 12,
        "length_penalty": 0.0,
        "grammar": ScriptedGrammar(script, EOS, forced=True),
    }
    for settings in ({"max_batch_size": 16}, {"max_batch_size": 2, "num_blocks": 8}):
        async with serving(model, **settings) as engine:
            result = (await run(engine, a_job(model, prompt, **fields)))[0]
            assert nothing_is_left(engine)
        assert [tuple(tokens) for tokens in result.tokens] == ranked[:6]
        assert result.reasons == ["stop"] * 6


async def test_beams_share_the_blocks_of_what_they_have_in_common(model: LoadedModel) -> None:
    """Eight beams over a prompt of ten blocks fit where eight prompts would not."""
    job = a_job(model, prompts([40])[0], **BEAM, best_of=8, n=1, ignore_eos=True)
    async with serving(model, max_batch_size=8, num_blocks=10 + 8 * 3, prefix_caching=False) as engine:
        await run(engine, job)
        assert engine.stats()["preemptions_total"] == 0


async def test_beams_leave_their_neighbours_alone(model: LoadedModel) -> None:
    """Drawn answers beside a search, with guesses and forced tokens, are those they are alone."""
    others = [
        a_job(model, prompt, temperature=1.0, seed=4, max_tokens=20, ignore_eos=True) for prompt in prompts([5, 20])
    ]
    others.append(a_job(model, "the", grammar=ScriptedGrammar([{5}, {6}, {7, 8}, {9}], EOS, forced=True), seed=1))
    search = a_job(model, prompts([11])[0], **BEAM, best_of=4, n=2)
    async with serving(model, max_batch_size=16) as engine:
        alone = [(await run(engine, job))[0].tokens for job in (*others, search)]
        together = [result.tokens for result in await run(engine, *others, search)]
    assert together == alone


async def test_a_search_can_be_cancelled_and_time_out(model: LoadedModel) -> None:
    async with serving(model, max_batch_size=4) as engine:
        generation = await engine.generate(a_job(model, "the", n=2, **BEAM | {"max_tokens": 300, "ignore_eos": True}))
        while engine.stats()["steps_total"] < 3:
            pass
        generation.cancel()
        assert (await collect(generation)).reasons == ["cancelled"] * 2
        assert nothing_is_left(engine)


async def test_stop_strings_and_logprobs_of_beams(model: LoadedModel, tiny_folder: Folder) -> None:
    prompt = prompts([9])[0]
    async with serving(model, max_batch_size=8) as engine:
        plain = (await run(engine, a_job(model, prompt, **BEAM, best_of=4, logprobs=0, ignore_eos=True)))[0]
        stop = plain.text[0][2:4]
        stopped = (await run(engine, a_job(model, prompt, **BEAM, best_of=1, stop=(stop,), ignore_eos=True)))[0]
    values = logprobs_by_transformers(tiny_folder("llama"), prompt + plain.tokens[0])[len(prompt) - 1 :]
    for at, entry in enumerate(plain.logprobs[0]):
        assert entry.logprob == pytest.approx(float(values[at, entry.token_id]), abs=1e-4)
    assert stop not in stopped.text[0]


async def test_alternatives_of_beams_are_the_models_own(model: LoadedModel, tiny_folder: Folder) -> None:
    """Top logprobs of every place of every answer, whatever branches the beams came by, before penalties and masks."""
    prompt = prompts([9])[0]
    fields = {**BEAM, "ignore_eos": True, "max_tokens": 6, "repetition_penalty": 1.3}
    async with serving(model, max_batch_size=8) as engine:
        plain = (await run(engine, a_job(model, prompt, **fields, best_of=5, n=3)))[0]
        result = (await run(engine, a_job(model, prompt, **fields, best_of=5, n=3, logprobs=4)))[0]
    assert result.tokens == plain.tokens
    for tokens, entries in zip(result.tokens, result.logprobs, strict=True):
        values = logprobs_by_transformers(tiny_folder("llama"), prompt + tokens)[len(prompt) - 1 :]
        for at, entry in enumerate(entries):
            top, ids = values[at].topk(4)
            assert (entry.token_id, [one[0] for one in entry.top]) == (tokens[at], ids.tolist())
            assert torch.allclose(torch.tensor([one[3] for one in entry.top]), top, atol=1e-4)


class Loose:
    """A language with many texts of many lengths: what may follow depends on the last token, and a text of `least`
    tokens or more may end, by an end-of-sequence token only."""

    def __init__(self, least: int = 2) -> None:
        self.least = least

    def allowed(self, tokens: Sequence[int]) -> list[int]:
        last = tokens[-1] if tokens else 7
        found = [(37 * last + 11 * step) % 250 for step in range(1, 9)]
        return found + [EOS] * (len(tokens) >= self.least)

    def matcher(self) -> LooseMatcher:
        return LooseMatcher(self)


class LooseMatcher(ScriptedMatcher):
    def __init__(self, of: Loose) -> None:
        super().__init__(ScriptedGrammar([], EOS))
        self._language = of

    def _allowed(self) -> set[int]:
        return set(self._language.allowed(self.accepted))

    @property
    def can_stop(self) -> bool:
        return EOS in self._allowed()

    @property
    def is_finished(self) -> bool:
        return self.accepted[-1:] == [EOS]


@pytest.mark.parametrize(
    ("width", "n", "penalty", "early"),
    [(4, 2, 1.0, False), (3, 3, 0.0, True), (4, 4, -1.0, "never"), (4, 2, 2.0, "never"), (5, 1, 1.5, True)],
)
async def test_under_a_grammar_lengths_and_ends_are_judged_as_transformers_does(
    width: int, n: int, penalty: float, early: bool | str, model: LoadedModel, tiny_folder: Folder
) -> None:
    """Compared with `generate`, which is told at each place what the same language allows: texts of different lengths
    compete, and searches stop early or not."""
    language, asked = Loose(), prompts((0, 3, 9, 16))[1:]
    expected = [
        beams_by_transformers(
            tiny_folder("llama"),
            prompt,
            n,
            num_beams=width,
            length_penalty=penalty,
            early_stopping=early,
            max_new_tokens=10,
            prefix_allowed_tokens_fn=lambda _, ids, skip=len(prompt): language.allowed(ids[skip:].tolist()),
        )
        for prompt in asked
    ]
    fields = {**BEAM, "n": n, "best_of": width, "length_penalty": penalty, "early_stopping": early, "grammar": language}
    jobs = [a_job(model, prompt, **fields) for prompt in asked]
    for settings in ({"max_batch_size": 32}, {"max_batch_size": 3, "max_batch_tokens": 7, "num_blocks": 14}):
        async with serving(model, **settings) as engine:
            found = [result.tokens for result in await run(engine, *jobs)]
            assert nothing_is_left(engine)
        assert [[[t for t in tokens if t != EOS] for tokens in one] for one in found] == expected


async def test_diverse_groups_under_a_grammar_keep_to_it(model: LoadedModel) -> None:
    """Each group's texts are in the language, groups differ, and a penalty of nothing makes them all alike."""
    language, prompt = Loose(least=99), prompts([9])[0]
    fields = {**BEAM, "max_tokens": 6, "n": 3, "best_of": 3, "grammar": language, "length_penalty": 0.0}
    found = {}
    for penalty in (0.0, 50.0):
        async with serving(model, max_batch_size=8) as engine:
            job = a_job(model, prompt, **fields, beam_groups=3, diversity_penalty=penalty)
            found[penalty] = (await run(engine, job))[0].tokens
        for tokens in found[penalty]:
            assert all(token in language.allowed(tokens[:at]) for at, token in enumerate(tokens))
    assert len({tuple(tokens) for tokens in found[0.0]}) == 1
    assert len({tokens[0] for tokens in found[50.0]}) == 3
    assert len({tuple(tokens) for tokens in found[50.0]}) == 3


async def test_the_best_of_several_draws_are_given(model: LoadedModel) -> None:
    """As if all had been asked for with logprobs, and ranked by hand."""

    def mean(result: Result, index: int) -> float:
        return sum(entry.logprob for entry in result.logprobs[index]) / len(result.logprobs[index])

    fields = {"temperature": 1.0, "seed": 5, "ignore_eos": True, "max_tokens": 8}
    async with serving(model, max_batch_size=8) as engine:
        everything = (await run(engine, a_job(model, "the", n=5, logprobs=0, **fields)))[0]
        result = (await run(engine, a_job(model, "the", n=2, best_of=5, **fields)))[0]
    order = sorted(range(5), key=lambda index: -mean(everything, index))
    assert result.tokens == [everything.tokens[index] for index in order[:2]]
    assert result.logprobs == [[], []]
    assert result.usage.completion_tokens == 40


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 3, "best_of": 2}, r"best_of is 2.*from n \(3\)"),
        ({"use_beam_search": True, "n": 4, "beam_groups": 3}, "beam_groups is 3.*divisor"),
        ({"beam_groups": 2}, "beam_groups.*use_beam_search"),
        ({"use_beam_search": True, "close_on_length": True}, "close_on_length is True"),
        ({"use_beam_search": True, "early_stopping": "soon"}, "early_stopping"),
    ],
)
async def test_choices_that_do_not_fit_together_are_refused(
    model: LoadedModel, fields: dict[str, Any], message: str
) -> None:
    async with serving(model) as engine:
        with pytest.raises(RequestError, match=message):
            await engine.generate(a_job(model, "the", **fields))
