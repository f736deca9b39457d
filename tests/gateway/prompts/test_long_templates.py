"""A chat template that loops over little for very long keeps only its own request."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sluicegate.engine import FewSteps, LongRendering
from sluicegate.engine.text.chat_rendering import render
from sluicegate.gateway.prompts.chat_template import ChatTemplate
from sluicegate.gateway.testing import TestApp

LONG = "{% for i in range(5000) %}{% for j in range(20) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
LARGE = "{% for i in range(10) %}{% set x = 'x' * 1000000 %}{% endfor %}{{ messages[0].content }}"
SHORT = "{% for m in messages %}{{ m.content }}{% endfor %}"
HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("template", [LONG, LARGE])
def test_a_long_rendering_is_given_up_where_few_steps_are_allowed(template: str) -> None:
    with FewSteps():
        with pytest.raises(LongRendering):
            render(template, HI)
        assert render(SHORT, HI) == "hi"
    assert render(template, HI) == "hi"


@pytest.mark.parametrize(("template", "beside"), [(LONG, True), (LARGE, True), (SHORT, False)])
def test_long_renderings_are_made_beside_the_event_loop(
    template: str, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of a few bytes kept every stream waiting for up to 3 s, as often as it was sent."""
    threads: list[threading.Thread] = []
    assembled = ChatTemplate.assembled

    def watched(self: ChatTemplate, *given: Any) -> Any:
        found = assembled(self, *given)
        threads.append(threading.current_thread())
        return found

    monkeypatch.setattr(ChatTemplate, "assembled", watched)
    app = TestApp()
    tokenizer = app.model.models["scripted"].tokenizer
    tokenizer.chat_template = template
    tokenizer.apply_chat_template = lambda turns, *, tokenize, **more: render(template, turns, **more)
    with app:
        reply = app.ask(stream=False)
        assert reply.text == "Hello back", reply.body
    [where] = threads
    assert (where is not app._thread) is beside
