"""Probes judge the state of every token of an answer, in the pass that computes it anyway, and change nothing of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import LoadedModel
from sluicegate.engine.probes import reading
from sluicegate.engine.probes.probe import CARD, ProbeSet, StateProbe, digest_of, read_probe
from sluicegate.engine.probes.reading import MOST_JOINED, ProbedReading
from sluicegate.engine.probes.score_pool import ScorePool
from sluicegate.engine.probes.states import evened
from sluicegate.engine.settings import ModelSettings
from sluicegate.plugins import ConfigurationError, ModelLoadError, Piece, RequestError
from sluicegate.plugins.contract.sentence_ends import SENTENCE_END
from tests.engine.conftest import MakeModel
from tests.engine.driving import Result, ScriptedGrammar, a_job, collect, prompts, reference_model, run, serving
from tests.engine.tiny_models import EOS

Folder = Callable[..., Path]
LAYERS = (1, 2)


def a_probe(model: LoadedModel, label: str = "harm", layers: tuple[int, ...] = LAYERS, hidden: int = 0) -> StateProbe:
    generator = torch.Generator().manual_seed(len(label))
    read = len(layers) * 48
    weights = {"w": torch.randn(hidden or read, generator=generator), "b": torch.randn(1, generator=generator)}
    if hidden:
        weights |= {
            "w1": torch.randn(hidden, read, generator=generator),
            "b1": torch.randn(hidden, generator=generator),
        }
    return StateProbe(label, layers, weights, digest_of(model.version), {})


def with_probes(model: LoadedModel, *probes: StateProbe) -> LoadedModel:
    return replace(model, probes=ProbeSet(probes or [a_probe(model)], model.device))


@torch.inference_mode()
def expected(folder: Path, probe: StateProbe, prompt: tuple[int, ...], answer: list[int]) -> list[float]:
    """Log-odds of the answer's tokens by one plain pass of `transformers` over prompt and answer."""
    out = reference_model(folder)(torch.tensor([[*prompt, *answer]]), output_hidden_states=True)
    states = torch.cat([evened(out.hidden_states[layer][0]) for layer in probe.layers], -1)
    return [float(value) for value in probe.logits(states)[len(prompt) :]]


def judged(result: Result, label: str = "harm") -> list[float]:
    """Log-odds of the tokens of the answer, in order, each counted once."""
    found: list[float] = []
    for piece in result.pieces:
        found += [scores[label] for scores in piece.probed[: len(piece.token_ids)]]
    return found


KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.3, "seed": 5},
    "one token": {"max_tokens": 1},
    "logprobs": {"temperature": 1.0, "logprobs": 3, "seed": 8},
    "to the end of the context": {"max_tokens": 500},
}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"draft_tokens": 0},
    "drafts": {"draft_tokens": 5, "drafts_per_step": 64},
    "preempted": {"num_blocks": 20, "prefix_caching": True},
    "small steps": {"max_batch_tokens": 9, "max_batch_size": 2, "prefill_slowdown": 0},
    "own code": {"forward": "transformers"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_token_of_the_answer_has_its_own_state_judged(
    kind: str, way: str, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """Whatever ends the answer: also the last token, which no step had to read for an answer without probes."""
    model = tiny("llama")
    if kind == "to the end of the context" and way in ("preempted", "own code"):
        pytest.skip("a pool so small holds no such answer, and the model's own code takes long")
    probe = a_probe(model)
    fields = {"max_tokens": 20, **KINDS[kind]}
    asked = [a_job(model, prompt, **fields) for prompt in prompts([3, 11, 26])]
    async with serving(model, **WAYS[way]) as engine:
        plain = await run(engine, *asked)
    async with serving(with_probes(model, probe), **WAYS[way]) as engine:
        found = await run(engine, *[replace(job, probed=True) for job in asked])
    for job, before, after in zip(asked, plain, found, strict=True):
        assert (after.tokens, after.text, after.reasons) == (before.tokens, before.text, before.reasons)
        known = [token for token in after.tokens[0] if token != EOS]
        wanted = expected(tiny_folder("llama"), probe, job.prompt.token_ids, known)
        assert judged(after)[: len(known)] == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "phi", "mixtral"])
async def test_any_family_is_read_behind_the_same_layers(family: str, tiny: MakeModel, tiny_folder: Folder) -> None:
    model = tiny(family)
    width = model.module.config.hidden_size
    probe = replace(a_probe(model), weights={"w": torch.linspace(-1, 1, 2 * width), "b": torch.zeros(1)})
    job = replace(a_job(model, prompts([7])[0]), probed=True)
    async with serving(with_probes(model, probe)) as engine:
        [found] = await run(engine, job)
    known = [token for token in found.tokens[0] if token != EOS]
    wanted = expected(tiny_folder(family), probe, job.prompt.token_ids, known)
    assert judged(found)[: len(known)] == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize("reused", [False, True])
async def test_forced_tokens_are_judged_though_the_cache_has_their_blocks(
    reused: bool, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """A grammar that forces the beginning, the middle and the end; the same request came before."""
    model, probe = tiny("llama"), a_probe(tiny("llama"))
    script = [{token} for token in range(20, 31)] + [set(range(60, 90))] * 3 + [{token} for token in range(40, 49)]
    grammar = ScriptedGrammar(script, EOS, forced=True)
    job = a_job(model, prompts([9])[0], grammar=grammar, max_tokens=60)
    async with serving(with_probes(model, probe)) as engine:
        if reused:
            await run(engine, job)
        [found] = await run(engine, replace(job, probed=True))
    known = [token for token in found.tokens[0] if token != EOS]
    assert len(known) == len(script)
    wanted = expected(tiny_folder("llama"), probe, job.prompt.token_ids, known)
    assert judged(found)[: len(known)] == pytest.approx(wanted, abs=2e-3)
    assert found.usage.cached_tokens == (8 if reused else 0)


@pytest.mark.parametrize(
    "sampling", [{"stop": ("e", "\u0000")}, {"min_tokens": 5}, {"stop_token_ids": tuple(range(60))}]
)
async def test_no_text_leaves_without_what_probes_say_of_it(sampling: dict[str, Any], tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [a_job(model, prompt, n=2, temperature=1.2, seed=3, **sampling) for prompt in prompts([3, 11])]
    async with serving(model) as engine:
        plain = await run(engine, *jobs)
    async with serving(with_probes(model)) as engine:
        found = await run(engine, *[replace(job, probed=True) for job in jobs])
    assert [one.text for one in found] == [one.text for one in plain]
    assert all(piece.probed for one in found for piece in one.pieces if piece.text)


async def test_company_in_the_batch_does_not_change_what_probes_say(tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [replace(a_job(model, prompt, max_tokens=30), probed=True) for prompt in prompts([5, 30, 17, 9])]
    async with serving(with_probes(model)) as engine:
        together = await run(engine, *jobs)
        alone = [(await run(engine, job))[0] for job in jobs]
    for one, other in zip(together, alone, strict=True):
        assert judged(one) == pytest.approx(judged(other), abs=1e-3)


async def test_several_probes_linear_and_not_are_told_by_label(tiny: MakeModel, tiny_folder: Folder) -> None:
    model = tiny("llama")
    both = a_probe(model, "hate", (2,), hidden=5), a_probe(model, "violence", (1, 3))
    job = replace(a_job(model, prompts([5])[0]), probed=True)
    async with serving(with_probes(model, *both)) as engine:
        [found] = await run(engine, job)
    assert with_probes(model, *both).probe_labels == ("hate", "violence")
    known = found.tokens[0]
    wanted = expected(tiny_folder("llama"), both[0], job.prompt.token_ids, known)
    assert judged(found, "hate") == pytest.approx(wanted, abs=2e-3)
    assert len(judged(found, "violence")) == len(known)


async def test_who_does_not_ask_gets_no_scores_and_no_delay(tiny: MakeModel) -> None:
    model = tiny("llama")
    asked, other = replace(a_job(model, prompts([5])[0]), probed=True), a_job(model, prompts([8])[0])
    async with serving(with_probes(model)) as engine:
        first, second = await run(engine, asked, other)
    assert all(not piece.probed for piece in second.pieces)
    assert any(piece.probed for piece in first.pieces)


def by_piece(result: Result) -> list[tuple[str, tuple[float, ...]]]:
    """Text and scores of each piece; a joined one taken apart."""
    found = []
    for piece in result.pieces:
        text, scores = piece.text, [one["harm"] for one in piece.probed]
        for size, count in piece.joined or ((len(text), len(scores)),):
            found.append((text[:size], tuple(scores[:count])))
            text, scores = text[size:], scores[count:]
        assert not text
        assert not scores
    return found


@pytest.mark.parametrize("way", ["plain", "drafts", "preempted", "small steps"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.3, "seed": 5}, {"stop": ("e",)}, {"logprobs": 2}], ids=str)
async def test_who_reads_by_sentence_gets_the_same_in_fewer_pieces(
    sampling: dict[str, Any], way: str, tiny: MakeModel
) -> None:
    """Text, tokens, ends, log probabilities and scores: each piece is some of those that others get, joined."""
    model = tiny("llama")
    jobs = [replace(a_job(model, prompt, max_tokens=60, **sampling), probed=True) for prompt in prompts([3, 11, 26])]
    async with serving(with_probes(model), **WAYS[way]) as engine:
        apart = await run(engine, *jobs)
        joined = await run(engine, *[replace(job, by_sentence=True) for job in jobs])
    for one, other in zip(apart, joined, strict=True):
        assert (other.text, other.tokens, other.reasons) == (one.text, one.tokens, one.reasons)
        assert other.logprobs == one.logprobs
        singly, together = by_piece(one), by_piece(other)
        assert [text for text, _ in together] == [text for text, _ in singly]
        for (_, mine), (_, theirs) in zip(together, singly, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-3)
    long = [result for result in apart if len(result.pieces) > 30]
    assert not long or any(len(b.pieces) < len(a.pieces) / 2 for a, b in zip(apart, joined, strict=True) if a in long)


@pytest.mark.parametrize("way", ["plain", "drafts", "preempted", "small steps"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.3, "seed": 5}, {"stop": ("e",)}, {"logprobs": 2}], ids=str)
async def test_who_does_not_wait_gets_text_at_once_and_the_same_scores_later(
    sampling: dict[str, Any], way: str, tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of text are those of an answer without probes; scores that follow belong to the text in order, and come
    in pieces of their own."""
    monkeypatch.setattr(reading, "BEHIND", 24)  # in a small pool answers are short
    model = tiny("llama")
    plain = [a_job(model, prompt, max_tokens=90, **sampling) for prompt in prompts([3, 11, 26])]
    async with serving(with_probes(model), **WAYS[way]) as engine:
        without = await run(engine, *plain)
        apart = await run(engine, *[replace(job, probed=True) for job in plain])
        behind = await run(engine, *[replace(job, probed=True, scores_behind=True) for job in plain])
    for bare, one, other in zip(without, apart, behind, strict=True):
        assert (other.text, other.tokens, other.reasons) == (bare.text, bare.tokens, bare.reasons)
        assert other.logprobs == bare.logprobs
        if way == "plain":  # how many tokens a step appends is not a matter of the answer alone
            first = len(other.pieces) - 8
            texts = [piece.text for piece in other.pieces if piece.text][:first]
            assert texts == [piece.text for piece in bare.pieces if piece.text][:first]
        parts = [part for piece in other.pieces for part in piece.joined]
        assert parts == [(len(text), len(scores)) for text, scores in by_piece(one) if text or scores]
        found = [scores["harm"] for piece in other.pieces for scores in piece.probed]
        assert found == pytest.approx([score for _, scores in by_piece(one) for score in scores], abs=1e-3)
        bringing = [at for at, piece in enumerate(other.pieces) if piece.probed]
        assert len(parts) // (24 + 4 * 3) <= len(bringing) <= len(parts) // 24 + 1
        assert all(other.pieces[at].behind for at in bringing)
        assert not any(other.pieces[at].text for at in bringing if at < len(other.pieces) - 1)


READERS: dict[str, dict[str, Any]] = {
    "at once": {},
    "by sentence": {"by_sentence": True},
    "behind": {"scores_behind": True},
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sampling", [{}, {"stop": ("e",)}, {"stop": ("q\x00q",)}, {"logprobs": 2}], ids=str)
async def test_each_score_belongs_to_the_text_of_its_token_however_many_a_step_appends(
    sampling: dict[str, Any], reader: str, tiny: MakeModel
) -> None:
    """Accepted drafts come several at once, and which are accepted together depends on who else is served."""
    model = tiny("llama")
    fields = {"max_tokens": 90, **sampling}
    jobs = [replace(a_job(model, prompt, **fields), probed=True, **READERS[reader]) for prompt in prompts([3, 11, 26])]
    async with serving(with_probes(model), **WAYS["plain"]) as engine:
        singly = await run(engine, *jobs)
    async with serving(with_probes(model), **WAYS["drafts"]) as engine:
        found = await run(engine, *jobs)
        assert engine.stats()["tokens_accepted_total"] > 0
    for one, other in zip(singly, found, strict=True):
        ours, theirs = scored_texts(one), scored_texts(other)
        assert [text for text, _ in theirs] == [text for text, _ in ours]
        for (_, mine), (_, its) in zip(ours, theirs, strict=True):
            assert its == pytest.approx(mine, abs=1e-3)


def scored_texts(result: Result) -> list[tuple[str, tuple[float, ...]]]:
    """Each text with its scores, wherever these came; texts of nothing left out."""
    if not any(piece.behind for piece in result.pieces):
        return [part for part in by_piece(result) if part != ("", ())]
    [text], found = result.text, []
    scores = [one["harm"] for piece in result.pieces for one in piece.probed]
    for size, count in [part for piece in result.pieces for part in piece.joined]:
        found.append((text[:size], tuple(scores[:count])))
        text, scores = text[size:], scores[count:]
    assert (text, scores) == ("", [])
    return found


async def test_scores_behind_of_a_cancelled_answer_come_with_its_end(tiny: MakeModel) -> None:
    """Whoever stops reading still learns what the probes said of the text that it has."""
    model = tiny("llama")
    job = replace(a_job(model, prompts([5])[0], max_tokens=400), probed=True, scores_behind=True)
    async with serving(with_probes(model)) as engine:
        generation = await engine.generate(job)
        pieces: list[Piece] = []
        async for piece in generation:
            pieces.append(piece)
            if len(pieces) == 5:
                generation.cancel()
    assert pieces[-1].finish_reason == "cancelled"
    assert sum(size for size, _ in pieces[-1].joined) >= sum(len(piece.text) for piece in pieces[:4])


async def test_a_sentence_leaves_when_it_is_known_to_have_ended(tiny: MakeModel) -> None:
    """With the token after it, not sixteen later: pieces end behind the end of each sentence or line."""
    model = tiny("llama")
    job = replace(a_job(model, prompts([9])[0], max_tokens=300, temperature=1.5, seed=4), probed=True, by_sentence=True)
    async with serving(with_probes(model)) as engine:
        [found] = await run(engine, job)
    sizes = [piece.joined or ((len(piece.text), 1),) for piece in found.pieces]
    assert max(len(parts) for parts in sizes) <= MOST_JOINED + 1  # the step that scores a piece draws another
    for piece, parts in zip(found.pieces[:-1], sizes, strict=False):
        inner = piece.text[: len(piece.text) - parts[-1][0] - (parts[-2][0] if len(parts) > 1 else 0)]
        ends = [match.end() for match in SENTENCE_END.finditer(piece.text)]
        assert not [end for end in ends if end < len(inner)], repr(piece.text)


async def test_a_pass_without_linear_probes_stores_the_same_scores(tiny: MakeModel) -> None:
    """Products of the compiled pass, and states read by hooks: one probe, by both."""
    model, probe = tiny("llama"), a_probe(tiny("llama"))
    width = len(probe.weights["w"])
    eye = torch.cat([torch.eye(width), -torch.eye(width)])
    bent = {"w1": eye, "b1": torch.zeros(2 * width), "w": torch.cat([probe.weights["w"], -probe.weights["w"]])}
    twin = replace(probe, weights={**bent, "b": probe.weights["b"]})  # relu(x) - relu(-x) is x
    job = replace(a_job(model, prompts([7])[0], max_tokens=30), probed=True)
    scores = []
    for one, way in ((probe, "auto"), (probe, "transformers"), (twin, "auto")):
        async with serving(with_probes(model, one), forward=way) as engine:
            scores.append(judged((await run(engine, job))[0]))
    assert scores[1] == pytest.approx(scores[0], abs=2e-3)
    assert scores[2] == pytest.approx(scores[0], abs=2e-3)


async def test_a_cancelled_answer_gives_nothing_that_was_not_judged(tiny: MakeModel) -> None:
    model = tiny("llama")
    async with serving(with_probes(model)) as engine:
        generation = await engine.generate(replace(a_job(model, prompts([5])[0], max_tokens=400), probed=True))
        pending = asyncio.create_task(collect(generation))  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
        generation.cancel()
        found = await pending
    assert all(piece.probed for piece in found.pieces if piece.text)
    assert found.reasons == ["cancelled"]


async def test_a_beam_search_is_refused_where_probes_judge(tiny: MakeModel) -> None:
    model = tiny("llama")
    job = replace(a_job(model, prompts([5])[0], n=1, use_beam_search=True, best_of=2), probed=True)
    async with serving(with_probes(model)) as engine:
        with pytest.raises(RequestError, match="beam"):
            await engine.generate(job)


def test_scores_are_read_from_the_blocks_where_their_tokens_are() -> None:
    pool = ScorePool(4, 4, ["harm", "hate"], torch.device("cpu"))
    pool.write(torch.tensor([12, 13, 14, 15, 0, 1, 2]), torch.arange(14.0).view(7, 2))
    assert pool.read([3, 0], 2, 6) == [[2.0 * at for at in (2, 3, 4, 5)], [2.0 * at + 1 for at in (2, 3, 4, 5)]]
    assert pool.read([3, 0], 5, 6) == [[10.0], [11.0]]
    assert all(value != value for [value] in pool.read([3, 0], 7, 8))  # nothing was computed there


def test_scores_are_kept_where_a_sequence_gives_up_its_blocks() -> None:
    pool = ScorePool(2, 4, ["harm"], torch.device("cpu"))
    pool.write(torch.arange(4), torch.arange(4.0)[:, None])
    probed = ProbedReading(pool, known=1)
    for token in (1, 2, 3):
        assert probed.hold(Piece(0, "x", (token,)), token + 1)
    probed.collect([0], 3)
    pool.write(torch.arange(4), torch.full((4, 1), 9.0))  # another's, in the same block
    probed.collect([0], 0)  # it waits, without blocks
    first = probed.release()
    assert first is not None
    assert [one["harm"] for one in first.probed] == [1.0, 2.0]
    assert probed.is_due
    assert probed.release() is None


@pytest.mark.parametrize("seed", range(20))
def test_scores_that_follow_are_those_of_their_texts_however_these_were_noted(seed: int) -> None:
    """Texts of a token, noted by their size; of several; and of none, at the end of a split character."""
    chance, tokens, parts = random.Random(seed), 3, []
    pool = ScorePool(64, 4, ["harm", "hate"], torch.device("cpu"))
    values = torch.randn(256, 2, generator=torch.Generator().manual_seed(seed))
    pool.write(torch.arange(256), values)
    probed, found = ProbedReading(pool, known=3, behind=True), []
    for _ in range(150):
        size = chance.randint(0, 3)
        if (count := chance.choice([0, 1, 1, 1, 1, 2])) == 1:
            probed.sizes.append(size)
        else:
            probed.note(Piece(0, "x" * size), tokens + count)
        tokens += count
        parts.append((size, list(range(tokens - count, tokens))))
        found.append(probed.bring(0, range(64), tokens))
    probed.collect(range(64), tokens)  # before it gives up its blocks
    probed.hold(Piece(0, finish_reason="stop"), tokens)
    found.append(probed.release())
    last: list[int] = []
    for size, mine in parts:
        last = mine or last
        mine += last if size and not mine else []
    brought = [piece for piece in found if piece is not None]
    assert len(brought) == 2
    assert [part for piece in brought for part in piece.joined] == [
        (size, len(mine)) for size, mine in parts if size or mine
    ]
    told = [scores for piece in brought for scores in piece.probed]
    rows = [values[at].tolist() for _, mine in parts for at in mine]
    assert told == [{"harm": harm, "hate": hate} for harm, hate in rows]


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_probe_is_what_was_saved(tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    probe = replace(a_probe(model, hidden=4), card={"source": "mine"})
    probe.save(tmp_path / "p")
    found = read_probe(tmp_path / "p", name="llama", version=f"mine+{model.version}", module=model.module)
    assert (found.label, found.layers, found.model, found.card) == (probe.label, probe.layers, probe.model, probe.card)
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in probe.weights.items())


def test_a_probe_of_another_model_is_refused_by_name(tiny_folder: Folder, tiny: MakeModel, tmp_path: Path) -> None:
    """Another seed, another rounding, another dtype: each is another model."""
    from sluicegate.engine.construction import load

    replace(a_probe(tiny("llama")), card={"model_name": "the-first"}).save(tmp_path)
    wanted = {"path": str(tiny_folder("llama", 1)), "name": "the-second", "probes": [str(tmp_path)]}
    with pytest.raises(ModelLoadError, match=r"'the-first'.*'the-second'"):
        load(ModelSettings.of(wanted))
    same = ModelSettings.of({**wanted, "path": str(tiny_folder("llama")), "name": "llama"})
    assert load(same).probe_labels == ("harm",)
    with pytest.raises(ModelLoadError, match="rounding"):
        load(same, weights="int8")
    with pytest.raises(ModelLoadError, match="same label"):
        load(replace(same, probes=(str(tmp_path), str(tmp_path))))


@pytest.mark.parametrize(
    "card",
    [
        {"format": 2},
        {"layers": []},
        {"layers": [0]},
        {"layers": [2, 1]},
        {"layers": ["1"]},
        {"layers": [1, 4]},
        {"label": ""},
    ],
    ids=str,
)
def test_a_card_that_says_nonsense_is_no_probe(card: dict[str, Any], tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    a_probe(model).save(tmp_path)
    facts = json.loads((tmp_path / CARD).read_text())
    (tmp_path / CARD).write_text(json.dumps(facts | card))
    with pytest.raises(ModelLoadError):
        read_probe(tmp_path, name="llama", version=model.version, module=model.module)


@pytest.mark.parametrize(
    "broken",
    [{"w": torch.full((96,), torch.nan)}, {"b": torch.zeros(2)}, {"w": torch.zeros(95)}, {"x": torch.zeros(1)}],
    ids=lambda one: next(iter(one)),
)
def test_weights_that_do_not_fit_are_no_probe(broken: dict[str, torch.Tensor], tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    probe = a_probe(model)
    replace(probe, weights={**probe.weights, **broken}).save(tmp_path)
    with pytest.raises(ModelLoadError):
        read_probe(tmp_path, name="llama", version=model.version, module=model.module)


def test_an_adapter_has_no_probes_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="probes"):
        ModelSettings.of({"path": "x", "base": "llama", "probes": ["p"]})


def test_a_missing_probe_says_how_to_make_one(tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    with pytest.raises(ModelLoadError, match="sluicegate probe train"):
        read_probe(tmp_path / "none", name="llama", version=model.version, module=model.module)
