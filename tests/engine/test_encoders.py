"""Trained embedders and cross-encoders: equal to their own forward pass, whatever else is in the batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from sluicegate.engine.encoders.encoders import Encoders
from sluicegate.engine.encoders.settings import EncoderSettings
from sluicegate.engine.stage import make_encoders
from sluicegate.plugins import (
    ConfigurationError,
    ContextLengthExceeded,
    Lifecycle,
    ModelLoadError,
    NotFound,
    Overloaded,
    ReadingModel,
    RequestError,
    TextEmbedder,
    TextScorer,
)
from sluicegate.plugins.testing import check_stage
from tests.engine.tiny_encoders import FAMILIES, save_encoder, save_sentence_model
from tests.waiting import soon

TEXTS = ["the cat", "the cat sat on the mat", "m", "dogs banking money " * 8, "a river bank"]


@asynccontextmanager
async def serving(*models: dict[str, Any], **settings: Any) -> AsyncIterator[Encoders]:
    stage = Encoders(EncoderSettings.of({"models": list(models), "threads": 1, **settings}))
    await stage.start()
    try:
        yield stage
    finally:
        await stage.close()


def states_of(folder: Path, text: str) -> tuple[torch.Tensor, Any]:
    """Return the last hidden states [T, d] of a text alone, by `transformers` itself."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    read = tokenizer(text, return_tensors="pt", truncation=True, max_length=model.config.max_position_embeddings - 2)
    ids = read["input_ids"][read["attention_mask"] == 1][None]
    with torch.inference_mode():
        return model(ids).last_hidden_state[0], ids[0].tolist()


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_encoder_alone_gives_the_unit_mean_of_its_own_states(family: str, tmp_path: Path) -> None:
    """Short and long texts in one batch, and in batches of a few tokens; ids are read as they are."""
    folder = save_encoder(tmp_path / "model", family)
    pairs = [states_of(folder, text) for text in TEXTS]
    expected = torch.stack([normalize(states.mean(0), dim=-1) for states, _ in pairs]).numpy()
    for budget in (4096, 40):
        async with serving({"path": str(folder)}, max_batch_tokens=budget) as stage:
            assert isinstance(stage, TextEmbedder)
            found = await stage.embed(TEXTS)
            by_ids = await stage.embed([ids for _, ids in pairs], model="model")
        np.testing.assert_allclose(found.vectors, expected, atol=2e-5)
        np.testing.assert_allclose(by_ids.vectors, expected, atol=2e-5)
        assert found.tokens == tuple(len(ids) for _, ids in pairs)
        assert found.truncated == ()


def pooled(states: torch.Tensor, how: str) -> torch.Tensor:
    """Pool as sentence-transformers words it, for one text."""
    count = len(states)
    weights = torch.arange(1, count + 1)[:, None]
    return {
        "pooling_mode_cls_token": states[0],
        "pooling_mode_mean_tokens": states.mean(0),
        "pooling_mode_max_tokens": states.max(0).values,
        "pooling_mode_mean_sqrt_len_tokens": states.sum(0) / count**0.5,
        "pooling_mode_weightedmean_tokens": (states * weights).sum(0) / weights.sum(),
        "pooling_mode_lasttoken": states[-1],
    }[how]


@pytest.mark.parametrize(
    "modes",
    [
        ("pooling_mode_cls_token",),
        ("pooling_mode_max_tokens",),
        ("pooling_mode_mean_sqrt_len_tokens",),
        ("pooling_mode_weightedmean_tokens",),
        ("pooling_mode_lasttoken",),
        ("pooling_mode_cls_token", "pooling_mode_mean_tokens"),
    ],
)
async def test_pooling_is_what_the_folder_says_and_nothing_is_normalised_unasked(
    modes: tuple[str, ...], tmp_path: Path
) -> None:
    asked = dict.fromkeys(modes, True) | {"pooling_mode_mean_sqrt_len": False}
    folder = save_sentence_model(tmp_path / "model", "bert", "Pooling", pooling=asked)
    async with serving({"path": str(folder)}) as stage:
        found = await stage.embed(TEXTS)
    expected = [torch.cat([pooled(states_of(folder, text)[0], mode) for mode in modes]) for text in TEXTS]
    np.testing.assert_allclose(found.vectors, torch.stack(expected).numpy(), atol=2e-5)


async def test_newer_folders_name_their_pooling_by_a_word(tmp_path: Path) -> None:
    folder = save_sentence_model(tmp_path / "model", "bert", "Pooling", pooling={"pooling_mode": "cls"})
    async with serving({"path": str(folder)}) as stage:
        found = await stage.embed(["the cat"])
    np.testing.assert_allclose(found.vectors[0], states_of(folder, "the cat")[0][0].numpy(), atol=2e-5)


async def test_dense_layer_norm_and_normalize_follow_in_the_order_of_the_folder(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = save_sentence_model(tmp_path / "model", "mpnet", "Pooling", "LayerNorm", "Dense", "Normalize")
    norm, dense = load_file(folder / "2_LayerNorm/model.safetensors"), load_file(folder / "3_Dense/model.safetensors")
    async with serving({"path": str(folder)}) as stage:
        found = await stage.embed(TEXTS)
        assert found.vectors.shape == (len(TEXTS), 24)
    for text, vector in zip(TEXTS, found.vectors, strict=True):
        x = states_of(folder, text)[0].mean(0)
        x = torch.nn.functional.layer_norm(x, (32,), norm["norm.weight"], norm["norm.bias"])
        x = torch.tanh(dense["linear.weight"] @ x + dense["linear.bias"])
        np.testing.assert_allclose(vector, normalize(x, dim=-1).numpy(), atol=2e-5)


async def test_a_default_prompt_lower_case_and_a_shorter_limit_are_heeded(tmp_path: Path) -> None:
    folder = save_sentence_model(tmp_path / "model", "bert", "Pooling")
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "the dog "}, "default_prompt_name": "query"})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8, "do_lower_case": True}))
    async with serving({"path": str(folder)}) as stage:
        found = await stage.embed([" CAT sat "])
        expected = states_of(folder, "the dog cat sat")[0].mean(0).numpy()
        np.testing.assert_allclose(found.vectors[0], expected, atol=2e-5)
        assert stage.models["model"].context_length == 8
        with pytest.raises(ContextLengthExceeded, match=r"10 tokens.*reads 8"):
            await stage.embed(["cat sat on the mat bank"])


async def test_what_is_cut_is_said_and_equals_the_tokenizers_own_cut(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "roberta")
    async with serving({"path": str(folder), "truncate": True}) as stage:
        found = await stage.embed(["the cat", "dog " * 100, "x" * 100_000])
        assert found.truncated == (1, 2)
        assert found.tokens == (4, 64, 3)  # a word that is too long is one unknown token
        expected = normalize(states_of(folder, "dog " * 100)[0].mean(0), dim=-1).numpy()
        np.testing.assert_allclose(found.vectors[1], expected, atol=2e-5)


async def test_what_cannot_be_embedded_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "xlm-roberta")
    async with serving({"path": str(folder)}) as stage:
        with pytest.raises(RequestError, match="no texts"):
            await stage.embed([])
        with pytest.raises(RequestError, match="text 1 has no tokens"):
            await stage.embed(["a", []])
        with pytest.raises(RequestError, match="must lie between"):
            await stage.embed([[5000]])
        with pytest.raises(ContextLengthExceeded, match=r"65 tokens.*reads 64"):
            await stage.embed([[5] * 65])
        with pytest.raises(ContextLengthExceeded, match="more than 64"):
            await stage.embed(["a " * 1_000_000])
        with pytest.raises(NotFound, match="loaded: model"):
            await stage.embed(["a"], model="other")
        with pytest.raises(RequestError, match="not there to score"):
            await stage.score("a", ["b"], model="model")
        with pytest.raises(NotFound, match="score"):
            await stage.score("a", ["b"])
    with pytest.raises(Overloaded, match="shutting down"):
        await stage.embed(["a"])


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "mpnet", "modernbert"])
@pytest.mark.parametrize("activation", [None, "torch.nn.modules.linear.Identity"])
async def test_a_cross_encoder_scores_as_its_own_forward_pass(
    family: str, activation: str | None, tmp_path: Path
) -> None:
    more = {} if activation is None else {"sentence_transformers": {"activation_fn": activation}}
    folder = save_encoder(tmp_path / "model", family, scores=True, **more)
    async with serving({"path": str(folder)}, max_batch_tokens=64) as stage:
        assert isinstance(stage, TextScorer)
        found = await stage.score("money", TEXTS)
        model = stage.models["model"]
        assert isinstance(model, ReadingModel)
        assert model.reads_for == "score"
    tokenizer, reference = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForSequenceClassification.from_pretrained(folder),
    )
    for text, score, tokens in zip(TEXTS, found.scores, found.tokens, strict=True):
        read = tokenizer("money", text.strip(), return_tensors="pt", truncation=True, max_length=64)
        assert int(read["attention_mask"].sum()) == tokens
        with torch.inference_mode():
            logit = reference.eval()(**read).logits[0, 0]
        expected = logit if activation else logit.sigmoid()
        assert score == pytest.approx(float(expected), abs=2e-5)


def test_the_stage_keeps_the_contract_of_its_slot(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "bert", scores=True)
    stage = make_encoders({"models": {"judge": {"path": str(folder)}}})
    assert isinstance(stage, Lifecycle)
    assert stage.models == {}
    asyncio.run(stage.start())
    assert check_stage("generate", stage) == []


def test_paths_that_can_be_no_model_are_refused_before_anything_is_imported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        make_encoders({"models": ["./nowhere"]})
    with pytest.raises(ConfigurationError, match=r"config\.json"):
        make_encoders({"models": [str(tmp_path)]})
    with pytest.raises(ConfigurationError, match="models is empty"):
        make_encoders({"models": []})
    with pytest.raises(ConfigurationError, match="lead to more than one"):
        make_encoders({"models": [{"path": "a/b", "name": "x"}, {"path": "a/c", "aliases": ["x"]}]})


async def test_documents_are_cut_behind_a_whole_query(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "bert", scores=True)
    async with serving({"path": str(folder)}) as stage:
        with pytest.raises(ContextLengthExceeded, match="document 1 with the query has"):
            await stage.score("cat", ["dog", "dog " * 80])
    async with serving({"path": str(folder), "truncate": True}) as stage:
        found = await stage.score("cat", ["dog", "dog " * 80, "dog " * 60])
        assert found.truncated == (1,)
        assert found.tokens == (5, 64, 64)
        assert found.scores[1] == pytest.approx(found.scores[2], abs=1e-6)
        with pytest.raises(ContextLengthExceeded, match="the query alone"):
            await stage.score("cat " * 80, ["dog"])


async def test_many_requests_at_once_share_passes_and_get_their_own_vectors(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "bert")
    async with serving({"path": str(folder)}, max_batch_tokens=256) as stage:
        alone = {text: (await stage.embed([text])).vectors[0] for text in TEXTS}
        before = stage.stats()["encoder_passes_total"]
        rows = [[TEXTS[(i + j) % 5] for j in range(1 + i % 4)] for i in range(40)]
        found = await asyncio.gather(*(stage.embed(row) for row in rows))
        assert stage.stats()["encoder_passes_total"] - before < 40
    for row, answer in zip(rows, found, strict=True):
        for text, vector in zip(row, answer.vectors, strict=True):
            np.testing.assert_allclose(vector, alone[text], atol=2e-5)


async def test_a_caller_that_goes_away_has_nothing_more_read(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "bert")
    async with serving({"path": str(folder)}, max_batch_tokens=64) as stage:
        gone = asyncio.create_task(stage.embed([f"dog {'cat ' * (i % 30)}" for i in range(2000)]))
        await soon(lambda: stage.stats()["encoder_tokens_total"])
        gone.cancel()
        assert (await stage.embed(["the cat"])).tokens == (4,)
        assert stage.stats()["encoder_tokens_total"] < 20_000
        assert stage.stats()["requests_waiting"] == 0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: _json(f / "modules.json", lambda rows: [*rows, {"path": "9", "type": "x.CNN"}]), "CNN"),
        (lambda f: _json(f / "modules.json", lambda rows: rows[:1]), "one Pooling"),
        (lambda f: _json(f / "modules.json", lambda rows: {"a": 1}), "no list of modules"),
        (lambda f: _json(f / "modules.json", lambda rows: [rows[0], {**rows[1], "path": "../x"}]), "leads out"),
        (lambda f: _json(f / "1_Pooling/config.json", lambda c: {"pooling_mode_attention": True}), "attention"),
        (lambda f: _json(f / "1_Pooling/config.json", lambda c: {}), "no pooling at all"),
        (lambda f: _json(f / "1_Pooling/config.json", lambda c: {**c, "include_prompt": False}), "include_prompt"),
        (lambda f: (f / "1_Pooling/config.json").unlink(), "cannot be read"),
        (lambda f: _json(f / "2_Dense/config.json", lambda c: {**c, "in_features": 7}), "Dense"),
        (lambda f: _json(f / "2_Dense/config.json", lambda c: {**c, "activation_function": "x.Mish"}), "Mish"),
        (lambda f: (f / "2_Dense/model.safetensors").unlink(), "no weights"),
        (lambda f: _json(f / "config.json", lambda c: {**c, "num_hidden_layers": 3}), "missing"),
        (lambda f: _json(f / "config.json", lambda c: {**c, "num_hidden_layers": 1}), "no place for"),
        (lambda f: (f / "config.json").unlink(), "cannot be read"),
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer|tokenizer.json|cannot be read"),
    ],
)
async def test_a_folder_that_cannot_be_served_as_it_says_is_refused(spoil: Any, said: str, tmp_path: Path) -> None:
    folder = save_sentence_model(tmp_path / "model", "bert", "Pooling", "Dense")
    spoil(folder)
    with pytest.raises(ModelLoadError, match=said):
        async with serving({"path": str(folder)}):
            pass


def _json(path: Path, change: Any) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


async def test_a_classifier_of_many_labels_is_no_cross_encoder(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", "bert", scores=True, num_labels=3)
    with pytest.raises(ModelLoadError, match="3 classes"):
        async with serving({"path": str(folder)}):
            pass


async def test_the_version_follows_every_module(tmp_path: Path) -> None:
    folder = save_sentence_model(tmp_path / "model", "bert", "Pooling")
    versions = []
    for mode in ("pooling_mode_mean_tokens", "pooling_mode_cls_token"):
        _json(folder / "1_Pooling/config.json", lambda c, m=mode: {m: True})
        async with serving({"path": str(folder)}) as stage:
            versions.append(stage.models["model"].version)
    assert len(set(versions)) == 2
