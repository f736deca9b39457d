"""What the whole engine draws, with every way to guess, has the model's own distribution: chi-square over many samples.

A sample is an answer of four tokens from a model with a vocabulary of eight, so that the probability of every answer is
known: by a plain forward pass of `transformers` over all of them. Seeds are fixed, so a p-value is the same in every
run. `SAMPLES=100000 python -m pytest -s tests/engine/test_exact_sampling.py` draws more than the suite has time for.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.shapes import numbered_words
from sluicegate.engine import LoadedModel, load_model
from sluicegate.engine.checkpoints.draft_heads import DraftHeads
from sluicegate.engine.checkpoints.eagle3 import read_eagle3
from sluicegate.engine.model.mtp import read_mtp
from sluicegate.engine.sequences.drafting import DraftAcceptance
from tests.engine.driving import ScriptedGrammar, a_job, reference_model, run, serving
from tests.engine.test_eagle3 import save_heads, tensors_of
from tests.engine.tiny_models import save_tiny

SAMPLES = int(os.environ.get("SAMPLES", "10000"))
EACH, LENGTH, VOCAB = 100, 4, 8
PROMPT = (1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3)
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 0, "num_hidden_layers": 2, "initializer_range": 0.12,
}  # fmt: skip
SCRIPT: list[set[int]] = [{1, 2, 4, 6, 7}, {3}, {1, 2, 5, 7}, {1, 4, 6}]
WAYS = ("none", "prompt lookup", "forced and prompt lookup", "draft model", "draft model under a grammar", "heads",
        "heads under a grammar", "EAGLE-3", "EAGLE-3 under a grammar", "MTP", "MTP under a grammar",
        "steps ahead", "steps ahead, forced and prompt lookup")  # fmt: skip


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess as far as there is room, whatever it is worth."""
    monkeypatch.setattr(DraftAcceptance, "length", lambda self, longest, cost: longest)


def a_model(folder: Path, seed: int = 0) -> tuple[Path, LoadedModel]:
    path = save_tiny(folder, "llama", seed, **SMALL)
    numbered_words(VOCAB).save_pretrained(path)
    return path, load_model(path)


def with_mtp(folder: Path) -> Path:
    """Add an MTP layer whose guesses are near to the model's: its own last layer, behind a plain sum."""
    tensors = load_file(folder / "model.safetensors")
    top, last = "model.mtp_layers.0.", "model.layers.1."
    more = {name.replace(last, top): tensor.clone() for name, tensor in tensors.items() if name.startswith(last)}
    norms = ("token_layernorm", "hidden_layernorm", "final_layernorm")
    more |= {f"{top}{name}.weight": tensors["model.norm.weight"].clone() for name in norms}
    more[f"{top}input_proj.weight"] = 0.5 * torch.eye(len(tensors["model.norm.weight"])).repeat(1, 2)
    save_file(tensors | more, folder / "model.safetensors")
    return folder


def expected(folder: Path, script: list[set[int]] | None) -> dict[tuple[int, ...], float]:
    """Return the probability of every answer, masked and renormalised where the grammar says so."""
    answers = list(product(*(script or [set(range(VOCAB))] * LENGTH)))
    ids = torch.tensor([(*PROMPT, *answer) for answer in answers])
    with torch.inference_mode():
        logits = reference_model(folder)(ids).logits[:, len(PROMPT) - 1 : -1].double()  # [answers, LENGTH, VOCAB]
        for at, allowed in enumerate(script or ()):
            logits[:, at, sorted(set(range(VOCAB)) - allowed)] = float("-inf")
    logprobs = torch.log_softmax(logits, -1).gather(2, ids[:, len(PROMPT) :, None]).sum((1, 2))
    return dict(zip(answers, logprobs.exp().tolist(), strict=True))


def p_value(counts: Counter[tuple[int, ...]], probabilities: dict[tuple[int, ...], float]) -> float:
    """Return the p-value of Pearson's test. Answers that are expected fewer than ten times count as one."""
    total = sum(counts.values())
    rare = [answer for answer, share in probabilities.items() if share * total < 10]
    cells = [(counts[answer], share * total) for answer, share in probabilities.items() if answer not in set(rare)]
    if rare:
        cells.append((sum(counts[answer] for answer in rare), sum(probabilities[answer] for answer in rare) * total))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    return float(torch.special.gammaincc(torch.tensor((len(cells) - 1) / 2.0), torch.tensor(statistic / 2.0)))


async def draw(
    model: LoadedModel, way: str, script: list[set[int]] | None, samples: int
) -> tuple[Counter[tuple[int, ...]], dict[str, float]]:
    settings = {
        "steps_ahead": "always" if "ahead" in way else "never",
        "draft_tokens": 0 if way in ("none", "steps ahead") else 3, "prompt_lookup": "lookup" in way,
        "max_batch_size": EACH, "max_batch_tokens": 2048, "num_blocks": 2048,
        "drafts_per_step": 3 * EACH, "max_waiting": SAMPLES,
    }  # fmt: skip
    job = a_job(model, PROMPT, n=EACH, max_tokens=LENGTH, temperature=1.0, ignore_eos=True)
    job = replace(job, grammar=ScriptedGrammar(script, 0, forced=True) if script else None)
    counts: Counter[tuple[int, ...]] = Counter()
    async with serving(model, **settings) as engine:
        begin = 1_000_000 * WAYS.index(way)  # other numbers for each way, or all would draw the same answers
        for first in range(begin, begin + samples // EACH, 10):
            sampling = [replace(job.sampling, seed=seed) for seed in range(first, first + 10)]
            found = await run(engine, *(replace(job, request_id=f"{s.seed}", sampling=s) for s in sampling))
            counts.update(tuple(answer) for result in found for answer in result.tokens)
        stats = dict(engine.stats())
    return counts, stats


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
async def test_answers_have_the_models_own_distribution(way: str, tmp_path: Path) -> None:
    folder, model = a_model(tmp_path)
    if "draft model" in way:
        model = replace(model, draft=a_model(tmp_path, 1)[1])
    if "heads" in way:
        heads = DraftHeads(3, SMALL.get("hidden_size", 48))
        torch.nn.init.normal_(heads.weight, std=0.05, generator=torch.Generator().manual_seed(0))
        model = replace(model, heads=heads.requires_grad_(False))
    if "EAGLE-3" in way:
        small = {name: tensor for name, tensor in tensors_of().items() if name not in ("d2t", "t2d")}
        small["lm_head.weight"] = 0.05 * torch.randn(VOCAB, 48, generator=torch.Generator().manual_seed(0))
        heads_folder = save_heads(tmp_path / "heads", tensors=small, eagle_aux_hidden_state_layer_ids=[2, 1, 2])
        model = replace(model, chain=read_eagle3(heads_folder, model.module))
    if "MTP" in way:
        model = replace(model, chain=read_mtp(str(folder), with_mtp(folder), model.module))
    script = SCRIPT if "grammar" in way or "forced" in way else None
    counts, stats = await draw(model, way, script, SAMPLES)
    p = p_value(counts, expected(folder, script))
    drafted, accepted = stats["tokens_drafted_total"], stats["tokens_accepted_total"]
    print(f"{way}: p = {p:.3f}, {accepted:,.0f} of {drafted:,.0f} guesses came true")
    assert sum(counts.values()) == SAMPLES
    assert p > 1e-4
    assert (0 < accepted < drafted) == (way not in ("none", "steps ahead"))


def test_the_test_finds_a_distribution_that_is_a_little_wrong(tmp_path: Path) -> None:
    """One answer in fifty too many of one kind is found, and the right distribution is not refused."""
    probabilities = expected(a_model(tmp_path)[0], None)
    generator = torch.Generator().manual_seed(0)
    answers, shares = list(probabilities), torch.tensor(list(probabilities.values()))
    places = torch.multinomial(shares, 100_000, replacement=True, generator=generator).tolist()
    right = Counter(answers[place] for place in places)
    assert p_value(right, probabilities) > 1e-4
    most = max(probabilities, key=probabilities.__getitem__)
    wrong = Counter(answers[place] if at % 50 else most for at, place in enumerate(places))
    assert p_value(wrong, probabilities) < 1e-4
