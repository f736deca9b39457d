"""Characters that are lines to some readers, U+2028 and its like, cut no event of a stream in two."""

from __future__ import annotations

import json

import httpx
import pytest

from sluicegate.gateway.api.delivery import in_lines
from tests.gateway.conftest import RunningGateway

WORDS = "a\u2028b\u2029c\u0085d é 语 😀"
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": WORDS}}}
ASKED = {"model": "bundled", "messages": [{"role": "user", "content": "x"}], "max_tokens": 60}


@pytest.mark.parametrize("partial", [False, True])
def test_a_stream_read_by_lines_is_whole(gateway: RunningGateway, partial: bool) -> None:
    """As `httpx` gives lines, which many scripts read streams by."""
    body = {**ASKED, "response_format": FORMAT, "stream": True, "sluicegate": {"partial": partial}}
    said, found = "", []
    with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                said += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
                found += [one["value"] for one in event.get("sluicegate", {}).get("partial", {}).get("values", [])]
            else:
                assert line in ("", "data: [DONE]")
    assert json.loads(said) == WORDS
    assert found == ([WORDS] if partial else [])


@pytest.mark.parametrize("text", [WORDS, "plain", "é \u2027 \u202a \u00a5 \u0086 \U0001f185", ""])
def test_events_say_the_same_in_lines(text: str) -> None:
    event = json.dumps({"a": text}, ensure_ascii=False).encode()
    assert json.loads(in_lines(event)) == {"a": text}
    assert len(in_lines(event).decode().splitlines()) == 1
