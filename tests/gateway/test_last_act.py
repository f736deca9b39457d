"""The last act before a structured answer leaves is an independent validator; what it refuses is never an answer.

The model is scripted and the constrainer lets everything through, which is what a bug of ours would look like.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
BLOCKLIST: Any = {"pipeline": {"moderate": ["blocklist"]}, "stages": {"moderate": {"blocklist": {"phrases": ["Ada"]}}}}


@pytest.mark.parametrize("script", [['{"a": "no number"}'], ['{"a"', ": 1"], ['{"a": 1, "a": 2}']])
async def test_a_broken_answer_is_an_error_never_an_answer(script: list[str]) -> None:
    """Whole: generated again, then a typed 500. Streamed: the choice never says `stop`, an error event follows."""
    async with TestApp(script=script) as app:
        whole = await app.ask_async(stream=False, response_format=FORMAT)
        assert whole.status == 500
        assert (whole.error or {})["code"] == "generation_failed"
        streamed = await app.ask_async(stream=True, response_format=FORMAT)
        assert streamed.finish_reason is None
        assert (streamed.error or {})["code"] == "generation_failed"
        assert b"sluicegate_invalid_answers_total 4.0" in app.runtime.metrics.exposition()[0]


async def test_a_valid_answer_passes() -> None:
    async with TestApp(script=['{"a"', ": 1}"]) as app:
        for stream in (True, False):
            answer = await app.ask_async(stream=stream, response_format=FORMAT)
            assert (answer.text, answer.finish_reason, answer.error) == ('{"a": 1}', "stop", None)


async def test_a_redaction_that_would_break_the_schema_refuses_the_answer_as_a_whole() -> None:
    """An enumerated value cannot be replaced; nothing of it is shown."""
    schema = {"type": "object", "properties": {"who": {"enum": ["Ada", "Bob"]}}}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with TestApp(script=['{"who": "A', 'da"}'], **BLOCKLIST) as app:
        answer = await app.ask_async(stream=False, response_format=fmt)
        assert answer.finish_reason == "content_filter"
        assert "Ada" not in str(answer.body)
