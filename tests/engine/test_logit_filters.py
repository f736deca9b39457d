"""What is left out before a draw: tokens that are not typical, and the ends of bad words."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TypicalLogitsWarper

from sluicegate.engine import LoadedModel
from sluicegate.engine.sampling.logit_filters import TypicalRows
from sluicegate.engine.sampling.outcomes import MaskRows
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.plugins import GenerationFailed, RequestError
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, run, serving
from tests.engine.rows import a_row
from tests.engine.tiny_models import EOS

V = 40


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.05, 0.99), st.floats(0.2, 2.0)), min_size=1, max_size=4),
    st.integers(0, 1000),
    st.booleans(),
)
def test_typical_tokens_are_those_of_transformers(asked: list[tuple[float, float]], seed: int, masked: bool) -> None:
    """Row by row with a mass and a temperature of its own, with refused tokens and without."""
    logits = torch.randn(len(asked), V, generator=torch.Generator().manual_seed(seed)) * 3
    if masked:
        logits[:, ::3] = float("-inf")
    expected = []
    for row, (mass, temperature) in zip(logits, asked, strict=True):
        expected.append(TypicalLogitsWarper(mass)(None, row[None] / temperature)[0].isfinite())  # type: ignore[arg-type]
    rows = [a_row([1], typical_p=mass, temperature=temperature) for mass, temperature in asked]
    typical = TypicalRows.of(rows, logits.device)
    assert typical is not None
    typical.keep(logits)
    assert torch.equal(logits.isfinite(), torch.stack(expected))


def test_greedy_rows_are_not_narrowed() -> None:
    logits = torch.randn(3, V, generator=torch.Generator().manual_seed(1))
    kept = logits.clone()
    rows = [a_row([1], typical_p=p, temperature=t) for p, t in ((0.1, 0.0), (1.0, 1.0), (0.1, 1.0))]
    assert TypicalRows.of(rows[:2], logits.device) is None
    typical = TypicalRows.of(rows, logits.device)
    assert typical is not None
    typical.keep(logits)
    assert torch.equal(logits[:2], kept[:2])
    assert not torch.equal(logits[2], kept[2])


def test_draws_stay_among_the_typical() -> None:
    logits = torch.randn(1, V, generator=torch.Generator().manual_seed(2)) * 2
    allowed = TypicalLogitsWarper(0.5)(None, logits.clone())[0].isfinite()  # type: ignore[arg-type]
    rows = [a_row([1], typical_p=0.5, temperature=1.0, seed=seed) for seed in range(300)]
    drawn = Sampler(V).draw(logits.repeat(300, 1), rows, MaskRows())
    assert {outcome.token_id for outcome in drawn} == set(allowed.nonzero().flatten().tolist())  # type: ignore[union-attr]


async def test_a_bad_word_is_never_answered(model: LoadedModel) -> None:
    """Words of one and of several tokens, taken from the answer itself; with guesses and without; in every seed."""
    fields = {"temperature": 1.2, "ignore_eos": True, "max_tokens": 30}
    async with serving(model, max_batch_size=16) as engine:
        plain = await run(engine, *[a_job(model, "the", seed=seed, **fields) for seed in range(6)])
        text = model.tokenizer.decode
        words = {text(result.tokens[0][at : at + 2]) for result in plain for at in (3, 9)}
        words = {word for word in words if word.isascii() and word.strip()} | {"e", "the"}
        spelled = [space + word for word in words for space in ("", " ")]
        banned = [model.tokenizer.encode(text, add_special_tokens=False) for text in spelled]
        barred = await run(
            engine, *[a_job(model, "the", seed=seed, bad_words=tuple(words), **fields) for seed in range(6)]
        )
    assert any(_contains(result.tokens[0], ids) for result in plain for ids in banned)
    assert not any(_contains(result.tokens[0], ids) for result in barred for ids in banned)


def _contains(tokens: list[int], part: list[int]) -> bool:
    return any(tokens[at : at + len(part)] == part for at in range(len(tokens)))


async def test_a_bad_word_that_the_grammar_forces_is_an_error_not_an_answer(model: LoadedModel) -> None:
    """Neither side gives way silently; with another way open the grammar takes that."""
    ids = model.tokenizer.encode("ab", add_special_tokens=False)
    assert len(ids) == 2
    forced, free = ScriptedGrammar([{i} for i in ids], EOS, forced=True), ScriptedGrammar([{ids[0]}, {ids[1], 70}], EOS)
    async with serving(model) as engine:
        with pytest.raises(GenerationFailed, match="no token is allowed"):
            await run(engine, a_job(model, "x", grammar=forced, bad_words=("ab",)))
        other = (await run(engine, a_job(model, "x", grammar=free, bad_words=("ab",))))[0]
    assert other.tokens == [[ids[0], 70]]


async def test_words_that_are_none_and_masses_that_are_none_are_refused(model: LoadedModel) -> None:
    async with serving(model) as engine:
        with pytest.raises(RequestError, match="bad_words"):
            await engine.generate(a_job(model, "x", bad_words=(" ",)))
        with pytest.raises(RequestError, match="at most 128"):
            await engine.generate(a_job(model, "x", bad_words=("a",) * 129))
        with pytest.raises(RequestError, match="typical_p is 0"):
            await engine.generate(a_job(model, "x", typical_p=0.0))
