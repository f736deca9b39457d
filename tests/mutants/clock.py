"""A plug-in of pytest: seconds of each test that passed, with what it set up, as JSON in the file `--clock`."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

_seconds: dict[str, float] = defaultdict(float)
_failed: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clock", type=Path)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    passed = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    if (file := session.config.getoption("--clock")) is not None:
        file.write_text(json.dumps(passed), "utf-8")
