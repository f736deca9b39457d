"""docs/mcp.md has the table that `python -m tests.gateway.mcp_gateway.attacks` writes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.gateway.mcp_gateway import attacks

NO_ATTACK = ("test_a_server_table_that_means_nothing_stops_the_start",)
"""Of `test_attacks.py`, and about an operator's own mistake."""


def test_the_page_has_the_table_of_a_run_in_which_every_case_held() -> None:
    written = attacks.PAGE.read_text("utf-8").partition(attacks.BEGIN)[2].partition(attacks.END)[0]
    assert written == attacks.table(attacks.cases_there()), "run `python -m tests.gateway.mcp_gateway.attacks`"


def test_every_attack_has_tests_that_are_there_and_every_test_of_attacks_has_a_row() -> None:
    named = {test for _, _, tests in attacks.ATTACKS for test in tests}
    assert named <= attacks.cases_there().keys()
    there = set(re.findall(r"^def (test_\w+)", (attacks.HERE / "test_attacks.py").read_text("utf-8"), re.M))
    assert there - named == set(NO_ATTACK)


@pytest.mark.parametrize("outcome", ["failure", "error", "skipped", ""])
def test_a_case_that_did_not_hold_stands_in_the_table_and_fails_the_command(
    outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`outcome` "": the test did not run at all."""
    page = tmp_path / "mcp.md"
    page.write_text(f"before\n{attacks.BEGIN}| old |\n{attacks.END} lies.\n")
    [(_, _, [first, *_]), *_] = attacks.ATTACKS
    cases = {**attacks.cases_there(), first: Counter({"held": 2, outcome: 1}) if outcome else Counter[str]()}
    monkeypatch.setattr(attacks, "PAGE", page)
    monkeypatch.setattr(attacks, "run_attacks", lambda: cases)
    assert attacks.main([]) == 1
    assert first in capsys.readouterr().out
    assert page.read_text() == f"before\n{attacks.BEGIN}{attacks.table(cases)}{attacks.END} lies.\n"


def test_a_page_without_the_table_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "mcp.md"
    page.write_text("nothing\n")
    monkeypatch.setattr(attacks, "PAGE", page)
    monkeypatch.setattr(attacks, "run_attacks", attacks.cases_there)
    with pytest.raises(SystemExit, match="no table to replace"):
        attacks.main([])
    assert page.read_text() == "nothing\n"
