"""Embedders that run a model, each with a real one."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluicegate.cache.semantic.model_embedders import FolderEmbedder, ServedEmbedder, UpstreamEmbedder
from sluicegate.plugins import ConfigurationError, Overloaded

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "how", "do", "i", "pay", "return", "a", "bill"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a BERT of random weights in the layout of sentence-transformers."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    made = tmp_path_factory.mktemp("embedder")
    (made / "vocab.txt").write_text("\n".join(VOCABULARY))
    BertTokenizerFast(str(made / "vocab.txt")).save_pretrained(made)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=32, **size)).save_pretrained(made)
    kinds = ("Transformer", "Pooling", "Normalize")
    (made / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.models.{k}"} for k in kinds]))
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return made


async def test_a_folder_gives_the_mean_of_the_last_hidden_states(folder: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    text = "how do i pay a bill"
    made = await FolderEmbedder(folder).embed(text)
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.inference_mode():
        expected = AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(made, expected / np.linalg.norm(expected), atol=1e-6)


async def test_a_text_longer_than_the_model_reads_is_cut_not_refused(folder: Path) -> None:
    made = await FolderEmbedder(folder).embed("pay " * 500)
    assert np.linalg.norm(made) == pytest.approx(1, abs=1e-6)


def test_a_folder_with_layers_that_are_not_run_here_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    with pytest.raises(ConfigurationError, match="Dense"):
        FolderEmbedder(tmp_path)
    with pytest.raises(ConfigurationError, match="no folder"):
        FolderEmbedder(tmp_path / "missing")


class Api(BaseHTTPRequestHandler):
    answers: list[Any]
    seen: list[Any]
    heads: dict[str, str]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((asked, self.headers["authorization"]))
        answer = self.answers.pop(0)
        body = answer if isinstance(answer, bytes) else json.dumps({"data": [{"embedding": answer}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        for name, value in self.heads.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def api() -> Iterator[tuple[str, type[Api]]]:
    handler = type("Handler", (Api,), {"answers": [], "seen": [], "heads": {}})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/embeddings", handler
    server.shutdown()
    server.server_close()


async def test_an_api_is_asked_with_model_text_and_key(api: tuple[str, type[Api]]) -> None:
    url, handler = api
    handler.answers[:] = [[3.0, 4.0], [1.0, 0.0, 0.0]]
    embedder = UpstreamEmbedder(url, "tiny", api_key="k")
    np.testing.assert_allclose(await embedder.embed("hello"), [0.6, 0.8], atol=1e-6)
    assert handler.seen == [({"model": "tiny", "input": "hello"}, "Bearer k")]
    with pytest.raises(ValueError, match="of 3 numbers; expected 2"):
        await embedder.embed("a vector of another length")
    await embedder.close()


@pytest.mark.parametrize(
    "answer",
    [
        [True, False],
        ["1.0", "2.0"],
        [None],
        [],
        [[1.0]],
        [1e30],
        [10**30],
        [0.0, 0.0],
        [1e-30, 1e-30],
        7,
        [1.0] * 70_000,
        b'{"data": [{"embedding": [NaN]}]}',
        b'{"data": [{"embedding": [1e999]}]}',
        b'{"data": []}',
        b'{"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}',
        b'{"data": {"embedding": [1.0]}}',
        b"[" * 2000 + b"]" * 2000,
        b"null",
        b" " * 5_000_000,
    ],
    ids=lambda answer: str(answer)[:30],
)
async def test_an_api_that_answers_no_vector_of_usual_numbers_is_not_believed(
    api: tuple[str, type[Api]], answer: Any
) -> None:
    url, handler = api
    handler.answers[:] = [answer, [3.0, 4.0]]
    embedder = UpstreamEmbedder(url, "tiny")
    with pytest.raises(ValueError):  # noqa: PT011 - of whichever kind: the cache counts it, and goes on without
        await embedder.embed("hello")
    np.testing.assert_allclose(await embedder.embed("hello"), [0.6, 0.8], atol=1e-6)
    await embedder.close()


async def test_an_api_that_packs_its_answer_is_not_believed(api: tuple[str, type[Api]]) -> None:
    url, handler = api
    handler.answers[:] = [gzip.compress(b" " * 50_000_000)]
    handler.heads["content-encoding"] = "gzip"
    embedder = UpstreamEmbedder(url, "tiny")
    with pytest.raises(ValueError, match="packed"):
        await embedder.embed("hello")
    await embedder.close()


async def test_an_api_that_drips_is_waited_for_no_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    monkeypatch.setattr("sluicegate.cache.semantic.model_embedders.UPSTREAM_LIMIT_S", 0.3)
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    embedder = UpstreamEmbedder(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", "tiny")
    with pytest.raises(TimeoutError):
        await embedder.embed("hello")
    await embedder.close()
    server.close()


async def test_a_served_model_is_none_before_it_is_bound() -> None:
    embedder = ServedEmbedder()
    with pytest.raises(Overloaded):
        await embedder.embed("hello")
