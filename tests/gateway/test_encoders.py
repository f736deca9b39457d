"""Embeddings by trained models, and rankings by cross-encoders, over HTTP and past the rails."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.nn.functional import normalize
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Embeddings, RegistryLike
from sluicegate.plugins.testing import ScriptedModel
from tests.engine.tiny_encoders import save_encoder, save_sentence_model
from tests.gateway.conftest import RunningGateway, running

TEXTS = ["the cat sat", "money in the bank of the river", "a"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("encoders")
    return {
        "e5": save_encoder(root / "e5", "bert", matryoshka_dimensions=[8, 16]),
        "dot": save_sentence_model(root / "dot", "mpnet", "Pooling"),
        "judge": save_encoder(root / "judge", "xlm-roberta", scores=True),
    }


@pytest.fixture(scope="module")
def gateway(folders: dict[str, Path]) -> Iterator[RunningGateway]:
    models: dict[str, dict[str, Any]] = {name: {"path": str(folder)} for name, folder in folders.items()}
    models["short"] = {"path": str(folders["judge"]), "max_tokens": 8, "truncate": True}
    models["brief"] = {"path": str(folders["e5"]), "max_tokens": 4, "truncate": True}
    models["dot"]["dimensions"] = [4]
    overrides = {
        "pipeline": {"generate": ["engine", "encoders"], "screen": ["blocklist"]},
        "stages": {
            "generate": {"encoders": {"models": models, "threads": 1}},
            "screen": {"blocklist": {"phrases": ["dog money"], "action": "block"}},
        },
    }
    with running(overrides) as found:
        yield found


def post(gateway: RunningGateway, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, timeout=60, trust_env=False)


def own_vector(folder: Path, text: str) -> torch.Tensor:
    """Return the mean of the last states of a text alone, by `transformers` itself."""
    read = AutoTokenizer.from_pretrained(folder)(text)
    ids = [i for i, seen in zip(read["input_ids"], read["attention_mask"], strict=True) if seen]
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder).eval()(torch.tensor([ids])).last_hidden_state[0].mean(0)


def test_the_openai_client_gets_the_models_own_vectors(gateway: RunningGateway, folders: dict[str, Path]) -> None:
    found = gateway.client().embeddings.create(model="e5", input=TEXTS)
    assert found.usage.prompt_tokens == 5 + 11 + 3  # "of" is spelled by two pieces, "in" as well
    for text, item in zip(TEXTS, found.data, strict=True):
        expected = normalize(own_vector(folders["e5"], text), dim=-1)
        np.testing.assert_allclose(item.embedding, expected.numpy(), atol=2e-5)


@pytest.mark.parametrize("length", [8, 16, 32])
def test_shorter_vectors_are_the_beginning_at_unit_length_again(
    gateway: RunningGateway, folders: dict[str, Path], length: int
) -> None:
    body = {"model": "e5", "input": TEXTS, "dimensions": length, "encoding_format": "base64"}
    for text, item in zip(TEXTS, post(gateway, "/v1/embeddings", body).json()["data"], strict=True):
        vector = np.frombuffer(base64.b64decode(item["embedding"]), np.float32)
        expected = normalize(own_vector(folders["e5"], text)[:length], dim=-1)
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-5)


def test_a_model_that_does_not_normalise_is_cut_and_left_so(gateway: RunningGateway, folders: dict[str, Path]) -> None:
    body = {"model": "dot", "input": TEXTS[0], "dimensions": 4}
    vector = post(gateway, "/v1/embeddings", body).json()["data"][0]["embedding"]
    np.testing.assert_allclose(vector, own_vector(folders["dot"], TEXTS[0])[:4].numpy(), atol=2e-5)


def test_a_length_that_the_model_was_not_trained_for_is_refused(gateway: RunningGateway) -> None:
    answer = post(gateway, "/v1/embeddings", {"model": "e5", "input": "a", "dimensions": 9})
    assert answer.status_code == 400
    assert "32 dimensions and can be cut to 16, 8 and cannot be cut to 9" in answer.json()["error"]["message"]


@pytest.mark.parametrize("one", [True, False])
def test_token_ids_give_the_vectors_of_the_text_that_they_spell(
    gateway: RunningGateway, folders: dict[str, Path], one: bool
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["e5"])
    rows = [tokenizer.backend_tokenizer.no_padding() or tokenizer(text, padding=False)["input_ids"] for text in TEXTS]
    texts = TEXTS[:1] if one else TEXTS
    by_ids = post(gateway, "/v1/embeddings", {"model": "e5", "input": rows[0] if one else rows}).json()
    by_text = post(gateway, "/v1/embeddings", {"model": "e5", "input": texts}).json()
    for left, right in zip(by_ids["data"], by_text["data"], strict=True):
        np.testing.assert_allclose(left["embedding"], right["embedding"], atol=1e-6)
    assert by_ids["usage"] == by_text["usage"]


def test_rails_read_what_token_ids_spell(gateway: RunningGateway, folders: dict[str, Path]) -> None:
    """In one text, or with a harmless one beside it."""
    tokenizer = AutoTokenizer.from_pretrained(folders["e5"])
    harmful = tokenizer.convert_tokens_to_ids(["the", "dog", "money"])
    for rows in (harmful, [[5], harmful]):
        answer = post(gateway, "/v1/embeddings", {"model": "e5", "input": rows})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "content_filter")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"model": "e5", "input": [[5, 999]]}, 400, "token id 999"),
        ({"model": "e5", "input": [-1]}, 400, "input"),
        ({"model": "e5", "input": []}, 400, "input"),
        ({"model": "e5", "input": [[]]}, 400, "input"),
        ({"model": "e5", "input": [1, "a"]}, 400, "input"),
        ({"model": "e5", "input": [True]}, 400, "input"),
        ({"model": "nobody", "input": [5]}, 404, "nobody"),
        ({"model": "judge", "input": "a"}, 400, "/v1/rerank"),
        ({"model": "e5", "input": "a " * 80}, 400, "82 tokens"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(
    gateway: RunningGateway, body: dict[str, Any], status: int, said: str
) -> None:
    answer = post(gateway, "/v1/embeddings", body)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]["message"] + str(answer.json()["error"]["param"])


def test_a_text_that_was_cut_is_named_in_the_answer(gateway: RunningGateway) -> None:
    found = post(gateway, "/v1/embeddings", {"model": "brief", "input": ["a", "the cat sat on the mat"]}).json()
    assert found["sluicegate"] == {"truncated": [1]}
    assert found["usage"]["prompt_tokens"] == 3 + 4


@pytest.mark.parametrize("model", ["e5", "judge"])
def test_a_model_that_writes_nothing_is_not_asked_to(gateway: RunningGateway, model: str) -> None:
    answer = post(gateway, "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "hi"}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_model")
    assert gateway.client().models.retrieve(model).id == model


# --- cross-encoders -----------------------------------------------------------------------------------------------


def own_scores(folder: Path, query: str, texts: list[str]) -> list[float]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = [model(**tokenizer(query, text, return_tensors="pt", truncation=True, max_length=64)) for text in texts]
    return [float(row.logits[0, 0].sigmoid()) for row in rows]


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_documents_are_ranked_by_the_models_own_scores(
    gateway: RunningGateway, folders: dict[str, Path], path: str
) -> None:
    expected = own_scores(folders["judge"], "where is money", TEXTS)
    order = sorted(range(3), key=lambda i: -expected[i])
    body = {"model": "judge", "query": "where is money", "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}
    found = post(gateway, path, body).json()
    assert [row["index"] for row in found["results"]] == order
    assert [row["document"]["text"] for row in found["results"]] == [TEXTS[i] for i in order]
    scores = [row["relevance_score"] for row in found["results"]]
    assert scores == pytest.approx([expected[i] for i in order], abs=2e-5)
    first = post(gateway, path, {**body, "top_n": 1, "return_documents": False}).json()["results"]
    assert first == [{"index": order[0], "relevance_score": scores[0]}]


def test_scores_keep_the_order_of_the_pairs(gateway: RunningGateway, folders: dict[str, Path]) -> None:
    expected = own_scores(folders["judge"], "cat", TEXTS)
    for path in ("/score", "/v1/score"):
        found = post(gateway, path, {"model": "judge", "text_1": "cat", "text_2": TEXTS}).json()
        assert [row["score"] for row in found["data"]] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/rerank", {"model": "e5", "query": "a", "documents": ["b"]}, 400, "/v1/embeddings"),
        ("/v1/rerank", {"model": "bundled", "query": "a", "documents": ["b"]}, 400, "scores nothing"),
        ("/v1/rerank", {"model": "nobody", "query": "a", "documents": ["b"]}, 404, "nobody"),
        ("/v1/rerank", {"model": "judge", "query": "a", "documents": []}, 400, "documents"),
        ("/v1/rerank", {"model": "judge", "query": "", "documents": ["b"]}, 400, "query"),
        ("/v1/rerank", {"model": "judge", "query": "a", "documents": ["b", "cat " * 70]}, 400, "document 1"),
        ("/v1/rerank", {"model": "judge", "query": "a", "documents": ["a dog money"]}, 400, "blocklist"),
        ("/v1/rerank", {"model": "judge", "query": "dog money", "documents": ["b"]}, 400, "blocklist"),
        ("/v1/score", {"model": "judge", "text_1": ["a", "b"], "text_2": ["c", "d"]}, 400, "2 texts"),
    ],
)
def test_what_cannot_be_ranked_is_refused_by_name(
    gateway: RunningGateway, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = post(gateway, path, body)
    assert answer.status_code == status, answer.text
    assert said in answer.text


def test_documents_that_were_cut_are_named(gateway: RunningGateway) -> None:
    body = {"model": "short", "query": "cat", "documents": ["dog", "dog dog dog dog dog"]}
    assert post(gateway, "/v1/rerank", body).json()["sluicegate"] == {"truncated": [1]}


VECTORS = {
    "not finite": np.array([[0.6, float("nan")], [0.6, 0.8]], np.float32),
    "too few": np.array([[0.6, 0.8]], np.float32),
    "no rows": np.array([0.6, 0.8], np.float32),
}


class Embedder(ScriptedModel):
    """A plug-in's model of vectors."""

    def __init__(self, vectors: npt.NDArray[np.float32]) -> None:
        super().__init__([])
        self._vectors = vectors

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        return Embeddings(self._vectors, (1,) * len(texts))


@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_of_a_plugin_that_are_none_are_not_handed_on(kind: str) -> None:
    def register(registry: RegistryLike) -> None:
        registry.add("generate", "vectors", lambda settings: Embedder(VECTORS[kind]))

    with TestApp(register, pipeline={"generate": ["vectors"]}) as app:
        found = app.client.post("/v1/embeddings", json={"model": "scripted", "input": ["a", "b"]})
    assert (found.status_code, found.json()["error"]["code"]) == (500, "generation_failed"), found.text
