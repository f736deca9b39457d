"""A generation that ends in an error is a failure in every dialect, streamed or not: it never looks like an answer."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import RegistryLike
from sluicegate.plugins.testing import ScriptedModel
from sluicegate.plugins.testing.doubles import MODEL

ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 20},
    "/v1/responses": {"input": "hi"},
}


def failing(registry: RegistryLike) -> None:
    model = ScriptedModel(("Hel", "lo"), finish_reason="error")
    registry.add("generate", "failing", lambda settings: model)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", sorted(ASKED))
def test_a_generation_that_ends_in_an_error_is_a_failure(path: str, stream: bool) -> None:
    """`error` is no word of any dialect: it would be shown as `end_turn`, or as `completed`."""
    with TestApp(failing, pipeline={"generate": ["failing"]}) as app:
        reply = app.client.post(path, json={"model": MODEL, "stream": stream, **ASKED[path]})
        [outcome] = app.wait_for_outcomes(1)
    assert reply.status_code == (200 if stream else 500)
    assert "generation_failed" in reply.text
    assert not any(word in reply.text for word in ("end_turn", "response.completed", '"finish_reason":"'))
    assert outcome.error == "generation_failed"
