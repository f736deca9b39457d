"""The same question in other words: only for who asked, and only where nothing else differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp

ONE, OTHER = "How do I return a faulty kettle?", "how can I return a faulty kettle"
ASKED = {"semantic": True}


@pytest.fixture
def gateway() -> Iterator[TestApp]:
    with TestApp(pipeline={"recall": ["memory"]}, stages={"recall": {"memory": {"semantic": {}}}}) as app:
        yield app


def ask(gateway: TestApp, text: str, cache: Any, **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": text}]
    body = {"model": "scripted", "messages": messages, "temperature": 0, "sluicegate": {"cache": cache}, **fields}
    return gateway.client.post("/v1/chat/completions", json=body)


def served(answer: httpx.Response) -> str:
    return str(answer.headers["x-sluicegate-cache"].partition(";")[0])


def test_by_meaning_only_for_who_asked(gateway: TestApp) -> None:
    ask(gateway, ONE, ASKED)
    assert served(ask(gateway, OTHER, True)) == "miss"
    assert served(ask(gateway, OTHER, ASKED)) == "hit", "kept exactly by the request before"
    assert served(ask(gateway, OTHER + ", please", ASKED)) == "semantic"


def test_a_draw_is_never_answered_by_meaning(gateway: TestApp) -> None:
    ask(gateway, ONE, ASKED, temperature=0.7, seed=1)
    assert served(ask(gateway, OTHER, ASKED, temperature=0.7, seed=1)) == "miss"


def test_a_tag_withdraws_what_was_kept_under_it(gateway: TestApp) -> None:
    ask(gateway, ONE, {"tags": ["kettles"]})
    ask(gateway, "something else", True)
    assert main(["cache", "purge", "--tag", "kettles", "--url", gateway.url]) == 0
    assert served(ask(gateway, ONE, True)) == "miss"
    assert served(ask(gateway, "something else", True)) == "hit"


def test_a_wrong_hit_is_reported_from_the_command_line(gateway: TestApp, capsys: pytest.CaptureFixture[str]) -> None:
    ask(gateway, ONE, ASKED)
    entry = ask(gateway, OTHER, ASKED).headers["x-sluicegate-cache-entry"]
    assert main(["cache", "report", entry, "--model", "scripted", "--url", gateway.url]) == 0
    assert served(ask(gateway, OTHER, ASKED)) == "miss"
    assert main(["cache", "stats", "--json", "--url", gateway.url]) == 0
    assert '"false_hit_reports_total": 1.0' in capsys.readouterr().out


def test_a_gateway_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "stats", "--url", "http://127.0.0.1:9"]) == 2
    assert "no gateway answers at http://127.0.0.1:9" in capsys.readouterr().err


def test_an_operator_opts_a_model_in_and_a_request_out() -> None:
    stages = {"recall": {"memory": {"semantic": {"models": ["scripted"]}}}}
    with TestApp(pipeline={"recall": ["memory"]}, stages=stages) as gateway:
        ask(gateway, ONE, True)
        assert served(ask(gateway, OTHER, {"semantic": False})) == "miss"
        assert served(ask(gateway, OTHER + ", please", True)) == "semantic"


def test_a_hit_tells_its_kind_score_age_and_what_it_saved(gateway: TestApp) -> None:
    ask(gateway, ONE, ASKED)
    said = ask(gateway, OTHER, {**ASKED, "threshold": 0.4})
    assert int(said.headers["age"]) >= 0
    decision = next(d for d in gateway.wait_for_outcomes(2)[1].decisions if d.slot == "recall")
    assert (decision.outcome, decision.detail["kind"]) == ("semantic hit", "semantic")
    assert 0.4 <= decision.detail["score"] <= 1
    assert decision.detail["saved_tokens"] > 0


@pytest.mark.parametrize("cache", [{"semantic": 1, "x": 2}, {"threshold": 2}, {"tags": [""]}])
def test_a_malformed_wish_is_refused(gateway: TestApp, cache: Any) -> None:
    answer = ask(gateway, ONE, cache)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("sluicegate.cache")


def test_a_served_model_compares(run_gateway: Callable[..., Any]) -> None:
    """Vectors are the pooled hidden states of the bundled model itself."""
    with run_gateway({"stages": {"recall": {"memory": {"semantic": {"embedder": "served"}}}}}) as gateway:
        cache = {"cache": {"semantic": True, "threshold": 0.5}}
        body = {"model": "bundled", "temperature": 0, "sluicegate": cache}
        body["structured_outputs"] = {"choice": ["yes", "no"]}
        said = []
        for text in (ONE, OTHER):
            messages = [{"role": "user", "content": text}]
            said.append(httpx.post(f"{gateway.url}/v1/chat/completions", json={**body, "messages": messages}))
        assert [served(answer) for answer in said] == ["miss", "semantic"]
        assert gateway.metric("sluicegate_recall_memory_semantic_rows") == 1


def test_a_cache_that_compares_by_a_model_nobody_serves_stops_the_start(run_gateway: Callable[..., Any]) -> None:
    table = {"stages": {"recall": {"memory": {"semantic": {"embedder": "served:missing"}}}}}
    with pytest.raises(AssertionError, match="missing"), run_gateway(table):
        pass
