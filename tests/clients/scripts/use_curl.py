"""curl."""

import json
import subprocess

from features import CLARA, PLAIN, REAL, RERANKER, SAID, SCHEMA, SCRIPTED, feature, run

FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}


def curl(url: str, body: dict | None = None, *options: str) -> str:
    sent = [] if body is None else ["-H", "content-type: application/json", "-d", json.dumps(body)]
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", *options, *sent, url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@feature("chat, schema")
def schema() -> None:
    body = {"model": "bundled", "messages": SAID, "temperature": 0, "response_format": FORM}
    found = json.loads(curl(f"{REAL}/v1/chat/completions", body))
    assert json.loads(found["choices"][0]["message"]["content"]) == CLARA


@feature("chat, streamed")
def streamed() -> None:
    body = {"model": "scripted", "messages": SAID, "stream": True}
    lines = curl(f"{SCRIPTED}/v1/chat/completions", body, "--no-buffer").splitlines()
    found = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in found if c["choices"]) == PLAIN
    assert lines[-2:] == ["data: [DONE]", ""] or lines[-1] == "data: [DONE]"


@feature("rerank")
def rerank() -> None:
    body = {"model": RERANKER, "query": "a cat", "documents": ["the cat", "a river"]}
    assert len(json.loads(curl(f"{REAL}/v1/rerank", body))["results"]) == 2


@feature("tokenize")
def tokenize() -> None:
    assert json.loads(curl(f"{REAL}/tokenize", {"model": "bundled", "prompt": "Hello"}))["count"] >= 1


@feature("health, metrics")
def health() -> None:
    curl(f"{REAL}/health", None, "--fail")
    assert "sluicegate_" in curl(f"{REAL}/metrics", None, "--fail")


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    raise RuntimeError(curl(f"{REAL}/v1/chat/completions", {"model": "nope", "messages": SAID}))


run()
