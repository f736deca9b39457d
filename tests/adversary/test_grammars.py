"""Hostile grammars: each ends in a typed error or an answer, and meanwhile another client's stream goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import RunningGateway

PATIENCE_S = 120.0
CHAT = "/v1/chat/completions"
KEYS = [{"id": "good", "key": "good"}, {"id": "bad", "key": "bad"}]
SETTINGS = {"keys": KEYS, "stages": {"generate": {"engine": {"grammar_cpu_s": 0.25}}}}
DEEP: dict[str, Any] = {"type": "integer"}
for _ in range(120):
    DEEP = {"type": "array", "items": DEEP}
GRAMMARS = {
    "words": 'start: WORD+\nWORD: /[a-z]+/\n%ignore " "\n',
    "words without blanks": "start: w*\nw: /[a-z]+/\n",
    "names": 'start: NAME ("," NAME)*\nNAME: /[A-Za-z_]\\w*/\n%ignore /\\s+/\n',
    "expressions": 'start: e\ne: e e | e "+" e | /[a-z0-9]+/\n',
    "right recursion": 'root ::= "\\"" s\ns ::= "\\"" | [^"\\\\] s | "\\\\" ["\\\\/bfnrt] s\n',
    "left recursion": "root ::= s\ns ::= s [a-z] | s s | [a-z]\n",
    "hidden recursion": 'start: a\na: b a? | "x"\nb: a? b | "y"?\n',
    "huge alternation": "start: " + " | ".join(f'"{i:05d}"' for i in range(600)) + "\n",
}
CONSTRAINTS: dict[str, dict[str, Any]] = {
    **{name: {"grammar": text} for name, text in GRAMMARS.items()},
    "nested quantifiers": {"regex": "((a+)+b?)+((c|d)*e?)*"},
    "large counts": {"regex": "(a|b)*a(a|b){20}"},
    "deep schema": {"json": DEEP},
    "unique items": {"json": {"type": "array", "uniqueItems": True, "minItems": 400, "items": {"type": "array"}}},
    "many properties in any order": {
        "json": {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(2_000)}},
    },
    "overlapping patterns": {"json": {"allOf": [{"pattern": f"(a|b)*a(a|b){{{n}}}"} for n in range(8, 14)]}},
    "ambiguous tags": {
        "structural_tag": {
            "format": {"type": "sequence", "elements": [{"type": "grammar", "grammar": GRAMMARS["words"]}] * 3}
        }
    },
}


@pytest.fixture(scope="module")
def keyed(run_gateway: Callable[..., Any]) -> Iterator[RunningGateway]:
    with run_gateway(SETTINGS) as gateway:
        yield gateway


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_hostile_grammar_ends_alone_while_others_stream(keyed: RunningGateway, name: str) -> None:
    """Typed, or answered; `/healthz` answers and another key's streams end whole, as often as they are begun."""
    found: list[httpx.Response] = []

    def hostile() -> None:
        body = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 24, "temperature": 1.0}
        asked = {**body, "model": "bundled", "structured_outputs": CONSTRAINTS[name], "seed": 3}
        found.append(_post(keyed, asked, "bad"))

    thread = threading.Thread(target=hostile)
    thread.start()
    while True:
        assert httpx.get(keyed.url + "/healthz", timeout=PATIENCE_S).status_code == 200
        assert _streams(keyed)
        if not thread.is_alive():
            break
    thread.join(PATIENCE_S)
    assert found, "the hostile request never ended"
    if found[0].status_code != 200:
        assert found[0].status_code in (400, 429), found[0].text
        assert found[0].json()["error"]["code"] in CODES, found[0].text


CODES = {
    *("grammar_too_costly", "schema_limit_exceeded", "invalid_schema", "unsupported_schema", "unsatisfiable_schema"),
    "rate_limit_exceeded",
}


def _post(keyed: RunningGateway, body: Any, key: str) -> httpx.Response:
    return httpx.post(keyed.url + CHAT, json=body, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_S)


def _streams(keyed: RunningGateway) -> bool:
    body = {"model": "bundled", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 12, "stream": True}
    with httpx.stream(
        "POST", keyed.url + CHAT, json=body, headers={"authorization": "Bearer good"}, timeout=PATIENCE_S
    ) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    reasons = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in lines[:-1] if '"choices":[{' in line]
    return lines[-1] == "data: [DONE]" and reasons[-1] in ("stop", "length")


@pytest.mark.parametrize("where", ["triggered_tags", "tags_with_separator"])
def test_a_tag_without_its_type_is_a_tag(keyed: RunningGateway, where: str) -> None:
    inner = {"begin": "<n>", "content": {"type": "json_schema", "json_schema": {"type": "boolean"}}, "end": "</n>"}
    several = {"type": where, "tags": [inner], "at_least_one": True, "max_count": 1, "text_before": False}
    several |= {"triggers": ["<n>"], "text_after": False} if where == "triggered_tags" else {"separator": ","}
    if where == "tags_with_separator":
        del several["text_before"]
    body = {"model": "bundled", "messages": [{"role": "user", "content": "x"}], "max_tokens": 40}
    answer = _post(keyed, {**body, "structured_outputs": {"structural_tag": {"format": several}}}, "good")
    assert answer.status_code == 200, answer.text
    spoiled = {"format": {**several, "tags": [{**inner, "type": "json_schema"}]}}
    answer = _post(keyed, {**body, "structured_outputs": {"structural_tag": spoiled}}, "good")
    assert answer.status_code == 400
    assert "/format/tags/0/type" in answer.json()["error"]["message"]
