"""The vectorised sampler does, row by row, what a slow obvious one does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.sampling.bitmasks import apply_bitmask, forbid, words_for
from sluicegate.engine.sampling.cpu_draws import CpuDraws
from sluicegate.engine.sampling.outcomes import MaskRows, SampledToken
from sluicegate.engine.sampling.params import OFF, draw_rule
from sluicegate.engine.sampling.rng import seed_of_choice, uniform
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.sampling.torch_draws import TorchDraws
from sluicegate.plugins import GenerationFailed, RequestError, Sampling
from tests.engine.driving import ScriptedGrammar
from tests.engine.rows import a_row

V = 40


def some_logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)) * 2


def slow_distribution(logits: list[float], tokens: list[int], prompt_length: int, sampling: Sampling) -> list[float]:
    """Compute probabilities [V] as the reference twin: plain lists, one row, in the order the sampler documents."""
    x = list(logits)
    asked = {name: off if getattr(sampling, name) is None else getattr(sampling, name) for name, off in OFF.items()}
    for token in set(tokens):
        times = asked["repetition_penalty"]
        x[token] = x[token] / times if x[token] > 0 else x[token] * times
    for token in set(tokens[prompt_length:]):
        times = tokens[prompt_length:].count(token)
        x[token] -= sampling.frequency_penalty * times + sampling.presence_penalty
    for token, bias in sampling.logit_bias.items():
        x[token] += bias
    temperature = sampling.temperature or 1.0
    ranked = sorted(range(len(x)), key=lambda t: -x[t])[: int(asked["top_k"]) or len(x)]
    weights = {t: math.exp((x[t] - x[ranked[0]]) / temperature) for t in ranked}
    total = sum(weights.values())
    kept, before = {}, 0.0
    for token in ranked:
        p = weights[token] / total
        if token != ranked[0] and (before >= asked["top_p"] or p < asked["min_p"] * weights[ranked[0]] / total):
            before += p
            continue
        kept[token] = p
        before += p
    return [kept.get(t, 0.0) / sum(kept.values()) for t in range(len(x))]


CASES = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.0, "top_k": 5},
    {"top_p": 0.7},
    {"top_p": 0.0},
    {"min_p": 0.2},
    {"top_k": 12, "top_p": 0.8, "min_p": 0.05, "temperature": 1.7},
    {"repetition_penalty": 1.8},
    {"frequency_penalty": 0.9, "presence_penalty": -0.5},
    {"repetition_penalty": 0.7, "frequency_penalty": -0.3, "presence_penalty": 1.1, "top_p": 0.9},
    {"logit_bias": {3: 2.5, 7: -100.0}},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_follow_the_reference_distribution(case: dict[str, object]) -> None:
    """20,000 seeds: every token drawn is one the reference allows, and frequencies agree within 4 standard errors."""
    fields = {"temperature": 1.0, **case}
    tokens, prompt_length, count = [3, 3, 7, 9, 3, 11, 9], 3, 20_000
    logits = some_logits(1)[0]
    expected = slow_distribution(logits.tolist(), tokens, prompt_length, Sampling(**fields))  # type: ignore[arg-type]
    row = a_row(tokens, prompt_length=prompt_length, vocab_size=V, **fields)
    drawn = np.zeros(V)
    for chunk in range(20):
        rows = [
            a_row(tokens, prompt_length=prompt_length, vocab_size=V, seed=chunk * 1000 + i, **fields)
            for i in range(count // 20)
        ]
        for outcome in Sampler(V).draw(logits.repeat(len(rows), 1), rows, MaskRows()):
            assert isinstance(outcome, SampledToken)
            drawn[outcome.token_id] += 1
    assert not row.rule.greedy
    for token, p in enumerate(expected):
        assert drawn[token] / count == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-9)


def test_each_row_is_drawn_as_if_it_were_alone() -> None:
    """Rows of all kinds in one batch: the same tokens as one by one."""
    rows = [
        a_row(
            [3, 3, 7, i], prompt_length=2, vocab_size=V, seed=i, **{"temperature": 0.0 if i % 4 == 0 else 1.0, **case}
        )
        for i, case in enumerate(CASES * 3)
    ]
    logits = some_logits(len(rows), seed=5)
    together = Sampler(V).draw(logits.clone(), rows, MaskRows())
    alone = [Sampler(V).draw(logits[i : i + 1].clone(), [row], MaskRows())[0] for i, row in enumerate(rows)]
    assert together == alone


def test_greedy_takes_the_likeliest_after_penalties_and_bias() -> None:
    logits = torch.zeros(1, V)
    logits[0, 3], logits[0, 5] = 2.0, 1.5
    plain = a_row([3, 3], prompt_length=0, vocab_size=V)
    penalised = a_row([3, 3], prompt_length=0, vocab_size=V, frequency_penalty=0.5)
    assert Sampler(V).draw(logits.clone(), [plain], MaskRows()) == [SampledToken(3)]
    assert Sampler(V).draw(logits.clone(), [penalised], MaskRows()) == [SampledToken(5)]


def test_logprobs_are_of_the_model_itself() -> None:
    """Neither temperature nor bias nor mask changes what is reported."""
    logits = some_logits(2)
    rows = [
        a_row([1], vocab_size=V, logprobs=3, temperature=0.3, seed=1, logit_bias={4: 50.0}),
        a_row([1], vocab_size=V),
    ]
    first, second = Sampler(V).draw(logits.clone(), rows, MaskRows())
    expected = torch.log_softmax(logits[0], -1)
    assert isinstance(first, SampledToken)
    assert first.token_id == 4
    assert first.logprob == pytest.approx(float(expected[4]))
    assert [token for token, _ in first.top] == expected.topk(3).indices.tolist()
    assert isinstance(second, SampledToken)
    assert (second.logprob, second.top) == (None, ())


def test_padding_is_never_sampled() -> None:
    logits = torch.zeros(1, V)
    logits[0, V - 1] = 50.0
    for seed in range(200):
        row = a_row([1], vocab_size=V, temperature=1.0, seed=seed)
        (outcome,) = Sampler(V - 8).draw(logits.clone(), [row], MaskRows())
        assert isinstance(outcome, SampledToken)
        assert outcome.token_id < V - 8


def test_a_row_with_a_nan_fails_alone() -> None:
    logits = some_logits(3)
    logits[1, 17] = float("nan")
    rows = [a_row([1], vocab_size=V, temperature=t, seed=4) for t in (1.0, 1.0, 0.0)]
    alone = Sampler(V).draw(logits[[0, 2]].clone(), [rows[0], rows[2]], MaskRows())
    first, second, third = Sampler(V).draw(logits, rows, MaskRows())
    assert [first, third] == alone
    assert isinstance(second, GenerationFailed)
    assert "nan" in second.message


def test_a_constrained_row_without_a_mask_fails_closed() -> None:
    matcher = ScriptedGrammar([{1}], eos=0).matcher()
    rows = [a_row([1], vocab_size=V, matcher=matcher), a_row([1], vocab_size=V)]
    first, second = Sampler(V).draw(some_logits(2), rows, MaskRows())
    assert isinstance(first, GenerationFailed)
    assert isinstance(second, SampledToken)
    assert all(
        isinstance(o, SampledToken) for o in Sampler(V).draw(some_logits(2), rows, MaskRows(free=frozenset({0})))
    )


def test_a_mask_that_allows_nothing_fails_the_row() -> None:
    matcher = ScriptedGrammar([{1}], eos=0).matcher()
    masks = MaskRows([0], np.zeros((1, words_for(V)), np.int32))
    (outcome,) = Sampler(V).draw(some_logits(1), [a_row([1], vocab_size=V, matcher=matcher)], masks)
    assert isinstance(outcome, GenerationFailed)
    assert "no token is allowed" in outcome.message


def test_rows_that_may_not_end_yet_never_draw_the_end() -> None:
    logits = torch.zeros(1, V)
    logits[0, 2] = 60.0
    row = a_row([1], vocab_size=V)
    assert Sampler(V, (2,)).draw(logits.clone(), [row], MaskRows()) == [SampledToken(2)]
    assert Sampler(V, (2,)).draw(logits.clone(), [row], MaskRows(unending=[0])) != [SampledToken(2)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 130), st.integers(1, 5), st.data())
def test_a_bitmask_refuses_exactly_the_zero_bits(vocab: int, rows: int, data: st.DataObject) -> None:
    """The vectorised mask against the loop that defines it; any vocabulary size, any subset of rows."""
    chosen = sorted(data.draw(st.sets(st.integers(0, rows - 1), min_size=1)))
    seed = data.draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    bitmask = random.integers(-(2**31), 2**31, (len(chosen), words_for(vocab)), dtype=np.int64).astype(np.int32)
    logits = torch.from_numpy(random.normal(size=(rows, vocab)).astype(np.float32))
    expected = logits.clone()
    for r, row in enumerate(chosen):
        for token in range(vocab):
            if not int(bitmask[r, token // 32]) >> (token % 32) & 1:
                expected[row, token] = float("-inf")
    in_kernel = logits.clone()
    CpuDraws().refuse(in_kernel, chosen, bitmask)
    apply_bitmask(logits, chosen, bitmask)
    assert torch.equal(logits, expected)
    assert torch.equal(in_kernel, expected)


def test_forbidding_the_only_allowed_token_leaves_the_mask_alone() -> None:
    row = np.zeros(2, np.int32)
    row.view(np.uint32)[1] = 0b101
    forbid(row, (32,))
    assert row.view(np.uint32).tolist() == [0, 0b100]
    forbid(row, (34,))
    assert row.view(np.uint32).tolist() == [0, 0b100]


def test_noise_is_uniform_and_depends_on_seed_and_position() -> None:
    draws = np.array([uniform(7, position) for position in range(20_000)])
    assert 0 <= draws.min() < draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert np.histogram(draws, 10, (0, 1))[0].min() > 1800
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    assert uniform(7, 3) == uniform(7, 3) != uniform(8, 3)
    assert len({seed_of_choice(-1, index) for index in range(100)}) == 100


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 1.1),
        ("min_p", -0.5),
        ("repetition_penalty", 0.0),
        ("frequency_penalty", 2.1),
        ("presence_penalty", -2.1),
        ("max_tokens", 0),
        ("min_tokens", -1),
        ("logprobs", -1),
        ("logit_bias", {V: 1.0}),
        ("logit_bias", {0: 101.0}),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(RequestError) as refused:
        draw_rule(Sampling(**{field: value}), default_temperature=1.0, vocab_size=V)  # type: ignore[arg-type]
    assert refused.value.param == field
    assert "expected" in refused.value.message


def test_no_temperature_means_the_checkpoints_own() -> None:
    assert draw_rule(Sampling(), default_temperature=0.0, vocab_size=V).greedy
    assert draw_rule(Sampling(), default_temperature=0.6, vocab_size=V).temperature == 0.6


@pytest.mark.parametrize(("name", "own", "attribute"), [
    ("top_k", 7, "top_k"), ("top_p", 0.8, "top_p"), ("min_p", 0.1, "min_p"), ("repetition_penalty", 1.3, "repetition"),
])  # fmt: skip
def test_the_models_own_values_count_where_the_request_says_nothing(name: str, own: float, attribute: str) -> None:
    """Also against one that asks for nothing: it was said."""

    def found(sampling: Sampling) -> float:
        rule = draw_rule(sampling, default_temperature=1.0, defaults={name: own}, vocab_size=V)
        return float(getattr(rule, attribute))

    assert found(Sampling()) == own
    for said in (OFF[name], own / 2 if name != "top_k" else 3):
        assert found(Sampling(**{name: said})) == said  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([33, 600, 2000]), st.floats(0.1, 8.0), st.integers(0, 10_000), st.data())
def test_the_kernels_choose_what_torch_chooses(vocab: int, spread: float, seed: int, data: st.DataObject) -> None:
    """Rows of every kind, peaked and flat, with refused tokens and ties: the CPU's kernels against their twin. A draw
    that falls on a border between two tokens may differ by rounding, so a row in a hundred may."""
    kinds = data.draw(st.lists(st.sampled_from(CASES), min_size=40, max_size=40))
    logits = torch.randn(40, vocab, generator=torch.Generator().manual_seed(seed)) * spread
    logits[:, seed % vocab] = float("-inf")
    logits[::3] = logits[::3].round()
    rows = []
    for i, kind in enumerate(kinds):
        fields = {"temperature": 0.0 if i % 7 == 0 else 1.0, **kind}
        tokens = [(i * j + seed) % 33 for j in range(i + 1)]
        rows.append(a_row(tokens, prompt_length=i // 2, vocab_size=vocab, seed=seed + i, **fields))
    outcomes = []
    for draws in (TorchDraws(), CpuDraws()):
        mine = logits.clone()
        draws.penalise(mine, rows)
        outcomes.append((mine, *draws.choose(mine, rows)))
    (left, left_best, left_tokens), (right, right_best, right_tokens) = outcomes
    assert torch.allclose(left, right, rtol=1e-5, atol=1e-5)
    assert left_best == pytest.approx(right_best, rel=1e-5)
    different = [
        i
        for i, (one, other) in enumerate(zip(left_tokens, right_tokens, strict=True))
        if one != other and float(left[i, one]) != float(left[i, other])
    ]
    assert len(different) <= 1


def sorted_draw(logits: torch.Tensor, row: SampleRow) -> tuple[int, float]:
    """Draw as the definition says, by sorting in float64. Return the token, and how near the draw was to a border of
    two."""
    rule, x = row.rule, logits.double() / row.rule.temperature
    weights, order = torch.exp(x - x.max()).sort(descending=True, stable=True)
    rank = torch.arange(len(weights))
    weights = weights.where(rank < (rule.top_k or len(weights)), 0)
    before = weights.cumsum(0) - weights
    kept = (before < rule.top_p * weights.sum()) & (weights >= rule.min_p) & (weights > 0)
    kept[0] = True
    mass = weights.where(kept, 0).cumsum(0)
    target = uniform(row.seed, row.position) * mass[-1]
    near = torch.cat([(mass - target).abs(), (before - rule.top_p * weights.sum()).abs()]).min() / mass[-1]
    return int(order[torch.searchsorted(mass, target, right=True)]), float(near)


@pytest.mark.parametrize("vocab", [20_003, 70_003])
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize(
    "rule", [{"top_p": 0.9}, {"top_p": 0.3}, {"top_k": 40}, {"top_k": 5000, "top_p": 0.8}, {"min_p": 0.2}, {}]
)
def test_draws_from_a_long_vocabulary_are_those_of_the_sorted_order(
    spread: float, rule: dict[str, float], vocab: int
) -> None:
    """From equal logits to peaked ones: whole rows are searched, or what is heavy is copied together."""
    generator = torch.Generator().manual_seed(3)
    logits = spread * torch.randn(12, vocab, generator=generator)
    rows = [a_row([1, 2], vocab_size=vocab, seed=seed, temperature=0.7, **rule) for seed in range(12)]
    _, drawn = CpuDraws().choose(logits, rows)
    for token, row, mine in zip(drawn, rows, logits, strict=True):
        expected, near = sorted_draw(mine, row)
        if not rule:  # nothing is sorted where nothing is cut: in the order of ids
            p = torch.softmax(mine.double() / 0.7, 0).cumsum(0)
            target = uniform(row.seed, row.position)
            expected, near = int(torch.searchsorted(p, target, right=True)), float((p - target).abs().min())
        assert token == expected or near < 1e-6
