"""A budget holds whichever model comes to answer: a version, a tier, or one in the place of another that fails."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.upstream.servers import ScriptedServer, answers, running, says
from tests.waiting import until

HEADS = {"authorization": "Bearer secret-alice"}
BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 64}
PRICES = {"far": {"input": 1.0, "output": 1.0}, "near": {"input": 1000.0, "output": 1000.0}}
CHEAP, DEAR = 0.01, 1.0
"""Budgets that one answer of `far`, or of `near`, fits into."""
FALLBACK = {"routing": {"models": {"far": {"fallback": ["near"]}}}}
VERSION = {"routing": {"models": {"far": {"weights": {"near": 1.0}}}}}
NESTED = {"routing": {"models": {"far": {"fallback": ["other"]}, "other": {"weights": {"near": 1.0}}}}}


def place(first: str, second: str, budget: float, prices: dict[str, Any], **settings: Any) -> TestApp:
    models = {
        name: {"url": url, "allow_private": True, "retries": 0, "attempts": 1}
        for name, url in (("far", first), ("near", second))
    }
    digest = hashlib.sha256(b"secret-alice").hexdigest()
    route = settings.pop("route", {})
    return TestApp(
        pipeline={"admit": ["api-keys", "limits"], "record": ["ledger"], "generate": ["upstream"], **route},
        stages={"generate": {"upstream": {"models": models}}, **settings.pop("stages", {})},
        keys=[{"id": "alice", "sha256": digest, "limits": {"budget_day": budget}}],
        accounts={"prices": prices},
        settings=settings,
    )


def booked(app: TestApp) -> float:
    return sum(usage.cost_nanos for usage in app.runtime.accounts.since_start.values()) / 1e9


TIERS = {"route": {"route": ["tiers"]}, "stages": {"route": {"tiers": {"names": ["auto"], "default": "near"}}}}


@pytest.mark.parametrize(
    ("model", "settings", "prices"),
    [
        ("far", FALLBACK, PRICES),
        ("far", NESTED, PRICES),
        ("far", VERSION, PRICES),
        ("auto", TIERS, PRICES),
        ("auto", TIERS, {**PRICES, "*": {"input": 1.0, "output": 1.0}}),
    ],
    ids=["fallback", "version of a fallback", "version", "tier", "tier and a price for every other"],
)
def test_what_the_dearest_model_that_may_answer_costs_is_reserved(
    model: str, settings: dict[str, Any], prices: dict[str, Any]
) -> None:
    failing, dear = ScriptedServer(answers(500)), ScriptedServer(says("word " * 60))
    with running(failing) as first, running(dear) as second:
        with place(first, second, CHEAP, prices, **dict(settings)) as app:
            refused = app.client.post("/v1/chat/completions", json={"model": model, **BODY}, headers=HEADS)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
            assert booked(app) == 0
        with place(first, second, DEAR, prices, **dict(settings)) as app:
            assert (
                app.client.post("/v1/chat/completions", json={"model": model, **BODY}, headers=HEADS).status_code == 200
            )
            until(lambda: booked(app) > 0)
            assert CHEAP < booked(app) <= DEAR


def test_a_model_that_nothing_dearer_answers_for_is_reserved_at_its_own_price() -> None:
    cheap = ScriptedServer(says("Hello"))
    with running(cheap) as first, place(first, first, CHEAP, PRICES) as app:
        assert app.client.post("/v1/chat/completions", json={"model": "far", **BODY}, headers=HEADS).status_code == 200
