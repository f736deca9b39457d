"""What names a model that nothing serves, and a budget that models without a price take nothing of, are warned of."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.config import load
from sluicegate.gateway.idle_settings.models import idle_models
from sluicegate.gateway.testing import TestApp

UPSTREAM: dict[str, Any] = {
    "pipeline": {"generate": ["upstream"]},
    "stages": {"generate": {"upstream": {"models": {"large": {"url": "https://a.example/v1"}}}}},
}
ENGINE: dict[str, Any] = {
    "stages": {
        "generate": {
            "engine": {"models": [{"path": "bundled", "name": "small@2", "aliases": ["s"]}, {"path": "/models/other"}]}
        }
    }
}
KEY = {"id": "a", "key": "key-of-a"}


def judged(stage: str, table: dict[str, Any]) -> dict[str, Any]:
    pipeline = {**UPSTREAM["pipeline"], "moderate": [stage]}
    return {"pipeline": pipeline, "stages": {**UPSTREAM["stages"], "moderate": {stage: table}}}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"routing": {"models": {"x": {"weights": {"larg": 1, "large": 1}}}}}, "[routing.models.x] weights"),
        ({"routing": {"models": {"large": {"fallback": ["larg"]}}}}, "[routing.models.large] fallback"),
        ({"routing": {"models": {"large": {"shadow": "larg"}}}}, "[routing.models.large] shadow"),
        (
            {"routing": {"models": {"x": {"sticky": "none", "rollout": {"canary": "larg", "baseline": "large"}}}}},
            "[routing.models.x] rollout",
        ),
        ({"routing": {"queues": {"larg": {"max_running": 1}}}}, "[routing.queues]"),
        ({"accounts": {"prices": {"larg": {"input": 1}}}}, "[accounts.prices]"),
        ({"keys": [{**KEY, "models": ["larg"]}]}, "key 'a'"),
        ({"policies": {"p": {"models": ["larg"]}}}, "[policies.p] models"),
        (judged("guard", {"model": "larg", "form": "llama_guard"}), "[stages.moderate.guard]"),
        (judged("token-guard", {"model": "larg"}), "[stages.moderate.token-guard]"),
        (judged("cascade", {"guard": {"model": "larg", "form": "llama_guard"}}), "[stages.moderate.cascade]"),
    ],
)
def test_a_model_that_is_named_and_not_served_is_warned_of(tables: dict[str, Any], said: str) -> None:
    [found] = idle_models(load(overrides={**UPSTREAM, **tables}))
    assert found == f"{said} names the model 'larg', which no stage of [pipeline] generate serves"


def test_names_of_models_aliases_routes_versions_and_patterns_are_known() -> None:
    tables = {
        "routing": {
            "models": {"assistant": {"weights": {"small@2": 1}, "fallback": ["s", "other"]}},
            "queues": {"small@2": {"max_running": 1}},
        },
        "accounts": {"prices": {"small": {"input": 1}, "other": {"input": 1}, "*": {"input": 1}, "mcp/x": {"call": 1}}},
        "keys": [{**KEY, "models": ["assistant", "s"], "limits": {"budget_day": 1}}],
        "policies": {"p": {"models": ["assistant", "anything-*"]}},
    }
    assert idle_models(load(overrides={**ENGINE, **tables})) == []


@pytest.mark.parametrize("limit", ["budget_day", "budget_month", "run_cost"])
def test_a_budget_that_models_without_a_price_take_nothing_of_is_warned_of(limit: str) -> None:
    prices = {"accounts": {"prices": {"small": {"input": 1}}}}
    budgeted = {**ENGINE, **prices, "keys": [{**KEY, "limits": {limit: 1}}]}
    [found] = idle_models(load(overrides=budgeted))
    assert found.startswith("key 'a': its budget holds nothing of what other answers")
    team = {"accounts": {**prices["accounts"], "teams": {"t": {limit: 1}}}}
    [found] = idle_models(load(overrides={**ENGINE, **team}))
    assert found.startswith("team 't': its budget holds nothing")
    assert idle_models(load(overrides={**ENGINE, **prices, "keys": [KEY]})) == [], "no budget needs no price"


def test_of_models_that_a_plug_in_brings_nothing_is_said() -> None:
    tables = {
        "pipeline": {"generate": ["of-a-plugin"]},
        "keys": [{**KEY, "models": ["x"], "limits": {"budget_day": 1}}],
    }
    assert idle_models(load(overrides=tables)) == []


def test_a_start_logs_them_and_a_check_prints_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(
        '[pipeline]\ngenerate = ["upstream"]\n[stages.generate.upstream.models.large]\nurl = "https://a.example/v1"\n'
        f'[accounts]\npath = "{tmp_path}/accounts.db"\n[routing.queues.larg]\nmax_running = 1\n'
    )
    assert main(["config", "check", str(path)]) == 1
    assert "[routing.queues] names the model 'larg'" in capsys.readouterr().out
    with caplog.at_level(logging.WARNING):
        TestApp(**UPSTREAM, settings={"routing": {"queues": {"larg": {"max_running": 1}}}})
    assert "[routing.queues] names the model 'larg'" in caplog.text
    assert main(["keys", "create", "b", "--budget-day", "1", "--config", str(path)]) == 0
    assert "note: its budget holds nothing of what large answers" in capsys.readouterr().err
