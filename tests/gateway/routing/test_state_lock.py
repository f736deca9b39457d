"""A file of weights is one gateway's: each would undo what the other changed."""

from __future__ import annotations

from pathlib import Path

from sluicegate.gateway.testing import TestApp
from tests.waiting import until


def test_a_second_gateway_on_one_file_of_weights_says_so_until_the_first_has_ended(tmp_path: Path) -> None:
    """Weights that one set did not reach the other, whose leader of the rollout went on."""
    tables = {"routing": {"state": str(tmp_path / "state.json")}}
    with TestApp(settings=tables) as first:
        assert first.client.get("/readyz").text == "ready"
        with TestApp(settings=tables) as second:
            said = second.client.get("/readyz")
            assert said.status_code == 200
            assert "routes: another gateway uses the file of [routing] state" in said.text
            assert str(tmp_path) not in said.text
            assert first.client.get("/readyz").text == "ready"
    with TestApp(settings=tables) as third:
        assert third.client.get("/readyz").text == "ready"


def test_the_next_gateway_has_the_file_once_the_first_has_ended(tmp_path: Path) -> None:
    """As in a restart in which both run for a while."""
    tables = {"routing": {"state": str(tmp_path / "state.json")}}
    first = TestApp(settings=tables)
    first.__enter__()
    try:
        with TestApp(settings=tables) as second:
            assert second.client.get("/readyz").text != "ready"
            first.__exit__()
            until(lambda: second.client.get("/readyz").text == "ready")
    finally:
        first.__exit__()
