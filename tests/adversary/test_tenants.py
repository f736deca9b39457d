"""One tenant sends what is large, long or many: it gets a typed answer soon, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from sluicegate.gateway.prompts import builder as prompts
from sluicegate.gateway.prompts import lengths
from tests.gateway.conftest import RunningGateway
from tests.waiting import until

CHAT = "/v1/chat/completions"
HUGE = 7_900_000
PATIENCE_S = 60.0
KEYS = [{"id": "good", "key": "good"}, {"id": "bad", "key": "bad"}]
LAG_S = 2.0
"""Of processor time, that nothing may keep the event loop: many times what is wanted."""


@pytest.fixture(scope="module")
def keyed(run_gateway: Callable[..., Any]) -> Iterator[RunningGateway]:
    with run_gateway({"keys": KEYS}) as gateway:
        yield gateway


def post(gateway: RunningGateway, path: str, body: Any, key: str = "bad") -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_S)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "bundled", "messages": [{"role": "user", "content": text}], "max_tokens": 2, **more}


class Tokenised:
    """The characters that a model's tokenizer was given."""

    def __init__(self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chars = 0
        model: Any = gateway.runtime.served_models["bundled"]
        kind = type(model.tokenizer)
        for name in ("_encode_plus",) if hasattr(kind, "_encode_plus") else ("__call__", "encode"):
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))
        quick = lengths.encode

        def also_counted(tokenizer: Any, text: str, *, special: bool) -> list[int]:
            self.chars += len(text)
            return quick(tokenizer, text, special=special)

        for module in (lengths, prompts):
            monkeypatch.setattr(module, "encode", also_counted)

    def _counted(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tokenizer: Any, text: Any, *arguments: Any, **named: Any) -> Any:
            self.chars += len(text)
            return plain(tokenizer, text, *arguments, **named)

        return counted


@contextmanager
def watched(gateway: RunningGateway) -> Iterator[list[float]]:
    """Processor time of the event loop's thread between its turns, which comes every 20 ms while the block runs; and
    all the while `/healthz` is answered."""
    took: list[float] = []
    stop = threading.Event()

    async def turns() -> None:
        began = time.thread_time()
        while not stop.is_set():
            await asyncio.sleep(0.02)
            took.append(time.thread_time() - began)
            began = time.thread_time()

    def probe() -> None:
        with httpx.Client(timeout=PATIENCE_S) as client:
            while not stop.is_set():
                assert client.get(gateway.url + "/healthz").status_code == 200
                stop.wait(0.02)

    thread = threading.Thread(target=probe)
    thread.start()
    turning = asyncio.run_coroutine_threadsafe(turns(), gateway.loop)
    try:
        until(lambda: len(took) > 1, PATIENCE_S)
        yield took
    finally:
        stop.set()
        thread.join()
        turning.result(PATIENCE_S)


LONG = "The quick brown fox jumps over the lazy dog. " * (HUGE // 45)
TOO_LONG = [
    (CHAT, asked(LONG)),
    (CHAT, asked("hello", messages=[{"role": "user", "content": "word " * 1000}] * 300)),
    ("/v1/completions", {"model": "bundled", "prompt": LONG}),
    ("/v1/responses", {"model": "bundled", "input": LONG}),
    ("/v1/messages", asked(LONG)),
    ("/v1/embeddings", {"model": "bundled", "input": LONG}),
    ("/v1/embeddings", {"model": "bundled", "input": ["x" * 30_000] * 200}),
]


@pytest.mark.parametrize(("path", "body"), TOO_LONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_prompt_that_cannot_fit_is_refused_before_anything_is_tokenised(
    keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    tokenised = Tokenised(keyed, monkeypatch)
    with watched(keyed) as took:
        answer = post(keyed, path, body)
    assert answer.status_code == 400, answer.text[:300]
    assert "at least" in answer.json()["error"]["message"]
    assert tokenised.chars == 0
    assert max(took) < LAG_S


def test_a_prompt_that_fits_is_tokenised_once(keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter of the other tests counts."""
    tokenised = Tokenised(keyed, monkeypatch)
    assert post(keyed, CHAT, asked("hello")).status_code == 200
    assert 5 <= tokenised.chars < 1000


def test_a_prompt_over_a_socket_is_held_to_the_same_length(
    keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenised = Tokenised(keyed, monkeypatch)
    url = keyed.url.replace("http", "ws") + "/v1/chat/completions/ws"
    with watched(keyed) as took, connect(url, additional_headers={"authorization": "Bearer bad"}) as socket:
        for _ in range(3):
            socket.send(json.dumps(asked("word " * 150_000)))
            assert json.loads(socket.recv(PATIENCE_S))["error"]["code"] == "context_length_exceeded"
            assert socket.recv(PATIENCE_S) == "[DONE]"
    assert tokenised.chars == 0
    assert max(took) < LAG_S


MANY = [
    (CHAT, {"model": "bundled", "messages": [{"role": "user", "content": "a"}] * 200_000}),
    (CHAT, {"model": "bundled", "messages": [{"role": "user", "content": "a"}] * 20_000}),
    (CHAT, asked("x", messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 9_000}])),
    (CHAT, asked("x", tools=[{"type": "function", "function": {"name": f"f{i}"}} for i in range(2_000)])),
    (CHAT, asked("x", logit_bias={str(i): 1 for i in range(150_000)})),
    (CHAT, asked("x", response_format={"type": "json_schema", "json_schema": {"schema": {"enum": [0] * 200_000}}})),
    ("/v1/completions", {"model": "bundled", "prompt": [1] * 1_000_000}),
    ("/v1/responses", {"model": "bundled", "input": [{"role": "user", "content": "a"}] * 20_000}),
    ("/v1/messages", asked("x", messages=[{"role": "user", "content": "a"}] * 20_000)),
    ("/v1/embeddings", {"model": "bundled", "input": [[1] * 1000] * 500}),
    ("/v1/moderations", {"input": ["a"] * 200_000}),
]


@pytest.mark.parametrize(("path", "body"), MANY, ids=lambda value: value if isinstance(value, str) else "")
def test_more_values_or_messages_than_the_settings_allow_are_a_413(
    keyed: RunningGateway, path: str, body: dict[str, Any]
) -> None:
    with watched(keyed) as took:
        answer = post(keyed, path, body)
    assert answer.status_code == 413, answer.text[:300]
    assert "[server] max_" in json.dumps(answer.json()["error"])
    assert max(took) < LAG_S


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop", ["x" * 400_000] * 16),
        ("bad_words", ["word " * 10_000] * 100),
        ("logit_bias", {str(i): 1 for i in range(9_000)}),
    ],
    ids=["stop", "bad_words", "logit_bias"],
)
def test_what_steers_the_draw_is_bounded_before_it_is_looked_up(
    keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch, field: str, value: Any
) -> None:
    tokenised = Tokenised(keyed, monkeypatch)
    answer = post(keyed, CHAT, asked("hello", **{field: value}))
    assert answer.status_code == 400, answer.text[:300]
    assert answer.json()["error"]["param"] == field
    assert tokenised.chars == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, asked("x")),
        ("/v1/messages", asked("x")),
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/moderations", {"input": "x"}),
        ("/v1/rerank", {"query": "x", "documents": ["a"]}),
        ("/tokenize", {"prompt": "x"}),
        ("/detokenize", {"tokens": [1]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_name_of_a_model_is_kept_that_no_model_has(keyed: RunningGateway, path: str, body: dict[str, Any]) -> None:
    """The console keeps the requests that ended: a name of 6 MB in each filled the memory."""
    answer = post(keyed, path, {**body, "model": "m" * 6_000_000})
    assert answer.status_code == 400, answer.text[:300]
    assert "model" in answer.json()["error"]["message"]
    assert len(answer.content) < 1000


def test_a_body_of_empty_lists_makes_none_of_them(keyed: RunningGateway) -> None:
    """Parsed, these 8 MB would hold the interpreter for a second."""
    body = b'{"model":"bundled","messages":[' + b"[]," * 2_600_000 + b"[]]}"
    with watched(keyed) as took:
        answer = httpx.post(keyed.url + CHAT, content=body, headers={"authorization": "Bearer bad"}, timeout=PATIENCE_S)
    assert refusal(answer) == (413, "request_too_large")
    assert max(took) < LAG_S


def test_moderation_of_a_long_text_runs_off_the_loop(keyed: RunningGateway) -> None:
    secret = "AKIAIOSFODNN7EXAMPLQ"
    text = ("nothing to see here. " * 40_000)[:900_000] + f" {secret} "
    before = keyed.metric("sluicegate_work_done_total")
    with watched(keyed) as took:
        answer = post(keyed, "/v1/moderations", {"input": text})
    assert answer.json()["results"][0]["flagged"] is True
    assert keyed.metric("sluicegate_work_done_total") > before
    assert max(took) < LAG_S


@pytest.mark.parametrize("path", ["/v1/batches", "/detokenize", "/v1/messages/batches", "/v1/rerank", "/v1/embeddings"])
@pytest.mark.parametrize("value", [[[1]] * 60_000, {f"k{i}": i for i in range(60_000)}], ids=["lists", "names"])
def test_a_large_body_is_read_off_the_loop_on_every_path(keyed: RunningGateway, path: str, value: Any) -> None:
    """Most of it is refused, and not before it is read."""
    before = keyed.metric("sluicegate_work_done_total")
    with watched(keyed) as took:
        answer = post(keyed, path, {"model": "bundled", "input_file_id": value, "tokens": value, "requests": value})
    assert answer.status_code in (400, 404, 413), answer.text[:300]
    assert keyed.metric("sluicegate_work_done_total") > before
    assert max(took) < LAG_S


@pytest.mark.parametrize("body", [LONG, [LONG[:60_000]] * 100], ids=["one text", "many texts"])
def test_moderation_of_more_than_is_judged_at_a_time_is_a_413(keyed: RunningGateway, body: Any) -> None:
    with watched(keyed) as took:
        answer = post(keyed, "/v1/moderations", {"input": body})
    assert refusal(answer) == (413, "request_too_large")
    assert "max_moderated_chars" in answer.json()["error"]["message"]
    assert max(took) < LAG_S


def test_a_large_body_without_a_known_key_is_not_read(keyed: RunningGateway) -> None:
    before = keyed.metric("sluicegate_work_done_total")
    assert post(keyed, CHAT, asked(LONG), key="nobody").status_code == 401
    assert keyed.metric("sluicegate_work_done_total") == before


def test_others_are_answered_while_one_tenant_sends_large_prompts(keyed: RunningGateway) -> None:
    """Every request of both tenants gets its answer; the flood is refused with a typed error, the others are served."""
    stop = threading.Event()

    def flood() -> set[tuple[int, str]]:
        found = set()
        while not stop.is_set():
            found.add(refusal(post(keyed, CHAT, asked(LONG))))
        return found

    with watched(keyed) as took, ThreadPoolExecutor(3) as pool:
        floods = [pool.submit(flood) for _ in range(3)]
        answers = [post(keyed, CHAT, asked(f"hello {i}"), key="good").status_code for i in range(10)]
        stop.set()
        refused = set().union(*(one.result() for one in floods))
    assert answers == [200] * 10
    assert refused <= {(400, "context_length_exceeded"), (429, "rate_limit_exceeded")}
    assert max(took) < LAG_S


def test_documents_that_do_not_fit_are_cut_off_the_loop(keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of megabytes is read as far as it fits, whatever its length."""
    tokenised = Tokenised(keyed, monkeypatch)
    extension = {"context": [{"text": LONG}, {"text": "Oslo is the capital of Norway."}]}
    with watched(keyed) as took:
        answer = post(keyed, CHAT, asked("What is the capital?", sluicegate=extension))
    assert answer.status_code == 200, answer.text[:300]
    assert 0 < tokenised.chars < 2_000_000
    assert max(took) < LAG_S


def test_large_prompts_leave_no_large_memory_behind(keyed: RunningGateway) -> None:
    """Five prompts of 7.9 MB, one after the other; before, one of them left more than a gigabyte."""
    post(keyed, CHAT, asked(LONG))
    before = _resident_bytes()
    for _ in range(5):
        post(keyed, CHAT, asked(LONG))
    assert _resident_bytes() - before < 300_000_000


def _resident_bytes() -> int:
    """Return the resident memory of this process, in which the gateway runs too."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
