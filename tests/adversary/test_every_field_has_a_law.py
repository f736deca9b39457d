"""Whatever a client can read is screened, derived, ours, its own words, or dropped: a new field says which."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from sluicegate import plugins
from sluicegate.gateway.api import disclosure as laws
from sluicegate.gateway.api.openapi import schemas as documents
from sluicegate.gateway.testing import TestApp
from tests.adversary.joining import WAYS, Liar, between, call, say, think


def test_every_field_of_every_answer_has_a_law() -> None:
    assert list(laws.uncovered()) == []


@pytest.mark.parametrize("kind", laws.FIELDS, ids=lambda kind: kind.__name__)
def test_a_new_field_without_a_law_stops_the_start(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = dataclasses.make_dataclass(kind.__name__, [*laws.fields_of(kind), "mood"])
    table = {grown if known is kind else known: names for known, names in laws.FIELDS.items()}
    monkeypatch.setattr(laws, "FIELDS", table)
    with pytest.raises(RuntimeError, match=rf"{kind.__name__}\.mood"):
        laws.check()


def test_a_new_field_of_a_dialect_without_a_law_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class ChatMood(BaseModel):
        mood: str

    monkeypatch.setattr(documents, "ChatMood", ChatMood, raising=False)
    with pytest.raises(RuntimeError, match=r"ChatMood\.mood"):
        laws.check()


def test_a_new_channel_or_part_of_an_answer_is_noticed() -> None:
    """Types that answers are made of are all in the table: those that fields of the table name."""
    known = {kind.__name__ for kind in laws.FIELDS}
    for kind in laws.FIELDS:
        for hint in getattr(kind, "__annotations__", {}).values():
            made = {
                name
                for name in plugins.__all__
                if dataclasses.is_dataclass(getattr(plugins, name)) and re.search(rf"\b{name}\b", str(hint))
            }
            assert made <= known, f"{kind.__name__} holds {made - known}"


LOGPROBS = {"content": [{"token": "ok", "logprob": -1, "bytes": None, "top_logprobs": []}]}


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return what every dialect sends: answers, events, errors, refusals, reviews, batches."""
    liar, raws = Liar(), []
    recall: dict[str, Any] = {"pipeline": {"recall": ["memory"]}}
    with between(liar, action="block", batches={"path": str(tmp_path_factory.mktemp("b"))}, **recall) as app:
        for dialect, stream in WAYS:
            for steps, reason in _answers():
                liar.says(*steps, reason=reason)
                explain = {"sluicegate": {"explain": True}}
                raws.append(dialect(app, stream, True, **explain)[1])
            raws.append(dialect(app, stream, True, model="nobody")[1])
        liar.says({**say("ok"), "logprobs": LOGPROBS})
        raws += [WAYS[0][0](app, stream, False, logprobs=True, top_logprobs=1, n=1)[1] for stream in (True, False)]
        raws += [app.client.get(f"/v1/{name}").text for name in ("models", "files", "batches")]
        raws.append(app.client.post("/v1/moderations", json={"input": ["a halberd", "a@example.com"]}).text)
    raws += _held(liar, tmp_path_factory)
    raws += _embedded()
    return [body for raw in raws for body in _parsed(raw)]


def _answers() -> list[tuple[list[dict[str, Any]], str]]:
    return [
        ([think("so"), say("ok"), call('{"a": 1}')], "tool_calls"),
        ([say("a halberd")], "stop"),
        ([say("ok")], "length"),
        ([call("{", name="nobody")], "stop"),
    ]


def _held(liar: Liar, folders: pytest.TempPathFactory) -> list[str]:
    path = str(folders.mktemp("held") / "held.sqlite3")
    with between(liar, action="escalate", review={"path": path}) as app:
        liar.says(say("a halberd"))
        raws = [WAYS[0][0](app, stream, False)[1] for stream in (True, False)]
        for item in app.client.get("/admin/review").json()["data"]:
            app.client.post(f"/admin/review/{item['id']}/approve", json={"note": "fine"})
            raws.append(app.client.get(f"/v1/reviews/{item['id']}").text)
    return raws


def _embedded() -> list[str]:
    with TestApp(script=["one ", "two"]) as app:
        asked = {"model": "scripted", "prompt": "hi"}
        return [app.client.post("/v1/completions", json={**asked, "stream": stream}).text for stream in (True, False)]


def _parsed(raw: str) -> Iterator[Any]:
    for line in raw.splitlines():
        text = line.removeprefix("data: ")
        if text.startswith("{"):
            yield json.loads(text)


def test_every_key_that_leaves_has_a_law(bodies: list[Any]) -> None:
    assert len(bodies) > 100
    strange = {key for body in bodies for key in laws.strange_keys(body)}
    assert strange == set()
