"""Cases of long context can be answered from their text, and only by joining the right facts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.long_context import DEPTHS, KINDS, _row, cases_of
from sluicegate.gateway.commands.eval.cases import Case, suite_of

CASES = cases_of([200, 1000], 3, 7, 12.0)


def read(case: Case) -> str:
    """Follow the facts, as a perfect reader would."""
    text, _, question = str(case.messages[0]["content"]).partition("\n\n")
    who = re.search(r"of (\w+)\?", question)
    assert who is not None
    if "code" in question:
        return re.findall(rf"access code of {who[1]} is (\d+)\.", text)[0]
    [locker] = re.findall(rf"{who[1]} keeps the key in the (\w+) locker", text)
    [room] = re.findall(rf"The {locker} locker stands in room (\d+)\.", text)
    return room if "room" in question else re.findall(rf"Room {room} is on the (\w+) floor", text)[0]


def test_every_case_has_one_answer_in_its_text() -> None:
    assert len(CASES) == len(KINDS) * 2 * len(DEPTHS) * 3
    assert all(case.expected == {"answer": read(case)} for case in CASES)
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_first_fact_stands_where_it_was_asked_for(depth: float) -> None:
    for case in cases_of([1000], 2, 1, 12.0):
        if case.tags[0] == "kind needle" and case.tags[2] == f"depth {depth:g}":
            text, _, question = str(case.messages[0]["content"]).partition("\n\n")
            name = question.split()[-1].rstrip("?")
            at = text.index(f"code of {name} is") / len(text)
            assert abs(at - depth) < 0.05


def test_the_same_seed_makes_the_same_suite_and_eval_reads_it(tmp_path: Path) -> None:
    assert cases_of([200], 1, 7, 12.0) == cases_of([200], 1, 7, 12.0) != cases_of([200], 1, 8, 12.0)
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(_row(case)) + "\n" for case in CASES), "utf-8")
    assert [case.expected for case in suite_of(path).cases] == [case.expected for case in CASES]
