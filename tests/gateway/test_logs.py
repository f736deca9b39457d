"""Logs in JSON: one object a line whatever is said, with the facts of a request by name."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.telemetry.logs import JsonFormatter
from sluicegate.gateway.testing import TestApp


def format_line(message: str, *arguments: object, error: BaseException | None = None, **extra: Any) -> str:
    record = logging.LogRecord("sluicegate.x", logging.ERROR, "f", 1, message, arguments, None)
    if error is not None:
        try:
            raise error
        except BaseException:
            record.exc_info = sys.exc_info()
    for name, value in extra.items():
        setattr(record, name, value)
    return JsonFormatter().format(record)


@given(st.text(), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none())))
def test_whatever_is_said_is_one_object_on_one_line(text: str, facts: dict[str, Any]) -> None:
    """No text of a caller can begin a line of its own, and no fact can pass for the level or the time."""
    line = format_line("%s", text, facts=facts)
    assert "\n" not in line
    assert "\r" not in line
    found = json.loads(line)
    assert (found["message"], found["level"], found["logger"]) == (text, "error", "sluicegate.x")
    assert {name: found[name] for name in facts if name not in ("at", "level", "logger", "message")} == {
        name: value for name, value in facts.items() if name not in ("at", "level", "logger", "message")
    }


def test_what_was_raised_is_named_with_its_trace() -> None:
    found = json.loads(format_line("broke", error=ValueError("two\nlines")))
    assert found["error"]["type"] == "ValueError"
    assert "two\nlines" in found["error"]["trace"]


def test_a_request_is_one_line_of_facts_without_its_texts() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("sluicegate.requests")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with TestApp(pipeline={"record": ["log"]}, keys=[{"id": "k", "key": "top-secret"}]) as app:
            body = {"model": "scripted", "messages": [{"role": "user", "content": "the prompt"}]}
            head = {"authorization": "Bearer top-secret"}
            assert app.client.post("/v1/chat/completions", json=body, headers=head).status_code == 200
            app.wait_for_outcomes()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    [line] = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found["model"] == "scripted"
    assert found["ended"] == "stop"
    assert found["completion_tokens"] > 0
    assert not any(word in line for word in ("the prompt", "Hello", "top-secret"))
