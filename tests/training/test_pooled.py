"""Rows made by other processes, kept beside the trainer and seen again, train as rows of its own would."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sluicegate.engine.text.prompt import render_chat
from training import heldout
from training.concepts import SUBJECTS
from training.encoding import encoder_of
from training.examples import rendered
from training.forward import Parts, answer_places, packed_loss, places_of
from training.mix import sample_mixed
from training.model import build_model
from training.packing import LENGTHS, batch_of, row_length, sample_batch, sample_rows
from training.pool import Pool, Shelf
from training.renamed import renamed
from training.rows import compact, expanded, write_rows
from training.train import main

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(BUNDLED)


def test_pieces_looked_up_are_the_tokenizers_own_tokens(tokenizer: Any) -> None:
    ids = encoder_of(tokenizer).ids
    for seed in range(120):
        prefix, branches = rendered(tokenizer, sample_mixed(random.Random(seed), 3, 9))
        for text in (prefix, *(part for branch in branches for part in branch)):
            assert ids(text) == tokenizer.encode(text, add_special_tokens=False)
    for text in ("", "ǅungla ǅ", "日本語 und 𝔘nicode\u0301\r\n\t", "<|user|>A<|end|>", "HTTPServer2go"):
        assert ids(text) == tokenizer.encode(text, add_special_tokens=False)


def test_a_prompt_put_together_is_the_one_that_is_served(tokenizer: Any) -> None:
    for seed in range(120):
        example = sample_mixed(random.Random(seed), 3, 9)
        prefix, branches = rendered(tokenizer, example)
        for question, (rest, answer) in zip(example.questions, branches, strict=True):
            schema = None if example.schemaless else question.schema
            assert prefix + rest == render_chat(tokenizer, example.messages, schema=schema)
            assert answer == question.answer


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_come_back_from_their_compact_form(tokenizer: Any, length: int) -> None:
    rows = sample_rows(tokenizer, "compact", 3, length)
    batch = batch_of(rows, tokenizer.pad_token_id)
    ids, positions, mask, targets, weights = expanded(torch.from_numpy(compact(rows, tokenizer.pad_token_id)))
    assert torch.equal(ids, batch.ids)
    assert torch.equal(positions, batch.positions)
    assert torch.equal(mask, batch.mask)
    assert torch.equal(targets, batch.targets)
    assert [part.tolist() for part in places_of(targets, weights)] == [part.tolist() for part in answer_places(batch)]


def test_the_fused_attention_has_the_same_loss_and_gradient(tokenizer: Any) -> None:
    torch.manual_seed(0)
    model = build_model(tokenizer, width=64, layers=2, heads=2)
    batch = sample_batch(tokenizer, "fused", rows=2, length=256)
    found = []
    for parts in (Parts(), Parts(fused=True)):
        model.zero_grad()
        loss = packed_loss(model, batch.ids, batch.positions, batch.mask, *answer_places(batch), parts)
        loss.backward()
        gradient = model.model.layers[0].self_attn.q_proj.weight.grad
        assert gradient is not None
        found.append((float(loss.detach()), gradient.clone()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-3)
    assert torch.cosine_similarity(found[0][1].flatten(), found[1][1].flatten(), 0) > 0.98


def test_a_shelf_gives_every_row_once_before_any_again() -> None:
    shelf, generator = Shelf(4, 6, CPU), torch.Generator().manual_seed(0)

    def rows(*numbers: int) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int16)[:, None, None].expand(-1, 4, 4)

    shelf.put(rows(1, 2, 3, 4))
    assert shelf.draw(2, generator)[:, 0, 0].tolist() == [1, 2]
    assert shelf.has_room(4)
    assert not shelf.has_room(5)  # rows nobody has seen would be lost
    shelf.put(rows(5, 6, 7, 8))  # in place of the first two
    assert [shelf.draw(2, generator)[:, 0, 0].tolist() for _ in range(3)] == [[3, 4], [5, 6], [7, 8]]
    again = shelf.draw(2, generator)[:, 0, 0].tolist()
    assert set(again) <= {3, 4, 5, 6, 7, 8}
    assert (shelf.put_in, shelf.drawn) == (8, 10)


def test_a_pool_that_gets_nothing_says_so_and_a_broken_file_is_reported(tmp_path: Path, tokenizer: Any) -> None:
    pool = Pool(tmp_path, {256: 4}, CPU, seed=1)
    with pytest.raises(TimeoutError, match="makers"):
        pool.draw(256, 2, patience=0.1)
    write_rows(compact(sample_rows(tokenizer, "pool", 2, 256), tokenizer.pad_token_id), tmp_path / "256-0-0.npy")
    assert pool.draw(256, 2).shape == (2, 4, 256)
    assert pool.summary() == {"made": 512, "seen": 1.0}
    (tmp_path / "256-0-1.npy").write_bytes(b"no array")
    with pytest.raises(RuntimeError, match="cannot be read"):
        pool.draw(256, 3)
    pool.close()


def run(folder: Path, tokens: int, *more: str) -> dict[str, Any]:
    shape = ["--width", "32", "--heads", "1", "--layers", "2", "--tokens-a-step", "2048", "--no-compile"]
    kept = ["--out", str(folder / "last"), "--work", str(folder), "--makers", "1", "--keep", "60000"]
    budget = ["--tokens", str(tokens), "--minutes", "30", "--check-every", "0"]
    main([*shape, *kept, *budget, *more])
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


def test_a_run_with_makers_trains_resumes_and_writes_its_mean(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "last").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / "last" / name).write_bytes((BUNDLED / name).read_bytes())
    first = run(tmp_path, 60_000)
    assert first["tokens"] >= 60_000
    assert first["made"] > 0
    second = run(tmp_path, 100_000)
    assert second["steps"] - first["steps"] == pytest.approx(20, abs=2)
    last, mean = (AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("last", "mean"))
    ids = torch.tensor(
        [tokenizer.encode("<|user|>Ada, 7.<|schema|>{name:string}<|assistant|>{", add_special_tokens=False)]
    )
    with torch.no_grad():
        found = [model(input_ids=ids).logits for model in (last, mean)]
    assert not torch.equal(*found)
    assert torch.nn.functional.cosine_similarity(found[0].flatten(), found[1].flatten(), 0) > 0.9


def test_a_loss_that_is_no_number_ends_the_run_before_anything_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "last").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / "last" / name).write_bytes((BUNDLED / name).read_bytes())
    monkeypatch.setattr("training.trainer.packed_loss", lambda model, *_: model.lm_head.weight.sum() * float("nan"))
    with pytest.raises(FloatingPointError, match="lower rate"):
        run(tmp_path, 10_000)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_lengths_of_all_kinds_are_practised() -> None:
    lengths = [row_length(step) for step in range(160)]
    assert {length: lengths.count(length) for length in LENGTHS} == {256: 110, 512: 40, 1024: 10}


def test_a_renamed_subject_can_be_asked_and_avoids_what_is_held_out() -> None:
    """Whatever its sentences say, each concept that has a new name has it in its labels and in its sentences."""
    rng, changed = random.Random(5), 0
    for name, concepts in SUBJECTS.items():
        avoided = heldout.KEYS | {concepts[0].keys[0]}
        found = renamed(concepts, lambda many: [f"zq{'xyvw'[n % 4]}{n:04d}o" for n in range(many)], rng, avoided)
        assert found, name
        for concept in found:
            assert not avoided & set(concept.keys)
            new = [key for key in concept.keys if "zq" in key]
            if new:
                changed += 1
                assert new == list(concept.keys)
                assert all("zq" in text.lower() for text in (*concept.labels, *concept.says, *concept.bits))
    assert changed > 200
