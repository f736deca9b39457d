"""Draft heads guess from the model's own states; the answer stays the model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings, load_model
from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.checkpoints.draft_heads import DraftHeads, load_heads
from sluicegate.engine.cpu import products_of
from sluicegate.engine.sequences.drafting import DraftAcceptance
from sluicegate.plugins import ModelLoadError
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, prompts, run, serving
from tests.engine.rows import a_sequence
from tests.engine.test_speculation import KINDS
from tests.engine.tiny_models import EOS, save_tiny
from training.heads import later_targets
from training.packing import IGNORED

Folder = Callable[..., Path]
ALL: dict[str, Any] = {"prompt_lookup": False, "drafts_per_step": 64, "draft_tokens": 5}


def with_heads(model: LoadedModel, count: int = 3) -> LoadedModel:
    heads = DraftHeads(count, 48)
    torch.nn.init.normal_(heads.weight, std=0.05, generator=torch.Generator().manual_seed(0))
    return replace(model, heads=heads.requires_grad_(False))


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess as far as there is room, whatever it is worth."""
    monkeypatch.setattr(DraftAcceptance, "length", lambda self, longest, cost: longest)


@pytest.mark.parametrize("forward", ["auto", "transformers"])
def test_the_states_are_what_the_logits_came_from(forward: str, tiny: MakeModel) -> None:
    """In the compiled pass and in the model's own: states times the vocabulary matrix are the logits."""
    model = tiny("llama")
    runner = ModelRunner(model, 16, 4, RunnerOptions(forward=forward))  # type: ignore[arg-type]
    runner.keep_states()
    rows = []
    for at, length in enumerate((3, 7)):
        sequence = a_sequence(list(range(5, 5 + length)))
        sequence.hold([4 * at, 4 * at + 1])
        rows.append(BatchRow.of(sequence, length))
    with torch.inference_mode():
        logits = runner.run(Batch(rows))
        assert runner.states is not None
        found = runner.states @ model.module.lm_head.weight.T
    assert runner.is_compiled == (forward == "auto")
    assert torch.allclose(found, logits, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_answer_is_the_same_with_heads(kind: str, tiny: MakeModel) -> None:
    model = tiny("llama")
    jobs = [a_job(model, prompt, **{"max_tokens": 24, **KINDS[kind]}) for prompt in prompts([3, 11, 26])]
    async with serving(model, draft_tokens=0) as engine:
        plain = await run(engine, *jobs)
    async with serving(with_heads(model), **ALL) as engine:
        guessed = await run(engine, *jobs)
        stats = engine.stats()
    assert [(r.tokens, r.text, r.reasons) for r in guessed] == [(r.tokens, r.text, r.reasons) for r in plain]
    assert stats["tokens_drafted_total"] > 0


@pytest.mark.parametrize("forced", [False, True])
async def test_heads_guess_within_the_grammar_and_past_what_it_forces(forced: bool, tiny: MakeModel) -> None:
    """Three guesses of a head at most, and forced tokens between them; places with one choice are guessed right."""
    model = tiny("llama")
    script = [{5}, {6}, set(range(40)), {20}, {7, 8}, {9}, {10}, {11}, set(range(200)), {12}, {13}]
    job = a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), temperature=1.0, seed=3)
    search = a_job(model, "the", use_beam_search=True, best_of=3, max_tokens=6)
    async with serving(model, draft_tokens=0, max_batch_size=8) as engine:
        plain = [result.tokens for result in await run(engine, job, search)]
    async with serving(with_heads(model), **ALL, max_batch_size=8) as engine:
        guessed = [result.tokens for result in await run(engine, job, search)]
        alone = (await run(engine, job))[0].tokens
        assert engine.stats()["tokens_accepted_total"] > 0
    assert guessed == plain
    assert alone == plain[0]


def test_heads_beside_a_checkpoint_are_loaded_and_strangers_refused(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "llama")
    version = load_model(folder).version
    DraftHeads(2, 48).save(folder)
    model = load_model(folder)
    assert model.heads is not None
    assert (model.heads.count, model.version) == (2, version), "guesses change no answer"
    save_file({"weight": torch.zeros(2, 16, 8), "bias": torch.zeros(2, 8)}, folder / "heads.safetensors")
    with pytest.raises(ModelLoadError, match="expected weight"):
        load_heads(folder, model.module)


@pytest.mark.parametrize(("change", "told"), [
    (lambda h: h | {"bias": h["bias"] * float("nan")}, "holds numbers that are NaN"),
    (lambda h: h | {"weight": h["weight"].index_fill(0, torch.tensor(1), float("inf"))}, "that are infinite"),
    (lambda h: {name: one.int() for name, one in h.items()}, r"are codes, .*weight \(int32\)"),
    (lambda h: {name: one.to(torch.float8_e4m3fn) for name, one in h.items()}, r"weight \(float8_e4m3fn\)"),
    (lambda h: {name: one[:0] for name, one in h.items()}, "k >= 1"),
    (lambda h: h | {"bias": h["bias"][:1]}, "expected weight"),
])  # fmt: skip
def test_heads_that_could_guess_nothing_are_refused(change: Any, told: str, tiny: MakeModel, tmp_path: Path) -> None:
    """Answers were right with all of these, and a step longer for nothing."""
    DraftHeads(2, 48).save(tmp_path)
    path = tmp_path / "heads.safetensors"
    save_file({name: one.contiguous() for name, one in change(load_file(path)).items()}, path)
    with pytest.raises(ModelLoadError, match=told):
        load_heads(tmp_path, tiny("llama").module)


async def test_heads_are_taken_from_where_the_operator_says(tiny_folder: Folder, tmp_path: Path) -> None:
    with_heads(load_model(tiny_folder("llama"))).heads.save(tmp_path)  # type: ignore[union-attr]
    settings = ModelSettings(str(tiny_folder("llama")), name="m", heads=str(tmp_path / "heads.safetensors"))
    engine = Engine(EngineSettings(models=(settings,), num_blocks=32, block_size=4, **ALL))
    await engine.start()
    try:
        model: Any = engine.models["m"]
        assert model.heads.count == 3
        await run(engine, a_job(model, "the cat"))
        assert engine.stats()["tokens_drafted_total"] > 0
    finally:
        await engine.close()
    with pytest.raises(ModelLoadError, match=r"no draft heads.*leave out `heads`"):
        await Engine(EngineSettings(models=(replace(settings, heads=str(tmp_path / "none")),))).start()


@pytest.mark.parametrize("width", [48, 160])
def test_one_compiled_call_computes_what_the_heads_compute(width: int) -> None:
    """Rows of different heads at once, and each head as in training, where all are computed together."""
    torch.manual_seed(width)
    heads, table = DraftHeads(3, width), torch.randn(20, width)
    torch.nn.init.normal_(heads.weight, std=0.1)
    torch.nn.init.normal_(heads.bias)
    states, before, index = torch.randn(5, width), torch.tensor([3, 19, 0, 3, 7]), torch.tensor([0, 2, 1, 2, 0])
    with torch.no_grad():
        together = heads(states, table[before][:, None].expand(5, 3, width))[range(5), index] @ table.T
        assert torch.allclose(heads.one(index, states, table[before]) @ table.T, together, atol=1e-4)
        compiled = products_of(heads, table, table)
        assert compiled is not None
        found = compiled.logits(index.numpy(), states, before.numpy())
    assert torch.allclose(found, together, atol=1e-3)
    assert products_of(DraftHeads(1, 20), table[:, :20], table[:, :20]) is None, "no whole registers"


def test_a_head_learns_what_comes_later_in_the_same_answer() -> None:
    targets = torch.tensor([[IGNORED, 1, 2, 3, IGNORED, 4, 5, IGNORED]])
    found = later_targets(targets, 2)[0]
    assert found[:, 0].tolist() == [IGNORED, 2, 3, IGNORED, IGNORED, 5, IGNORED, IGNORED]
    assert found[:, 1].tolist() == [IGNORED, 3, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED]
