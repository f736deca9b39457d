"""The page that `sluicegate eval --html` writes, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.eval.asking import AskedCase
from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.eval.checks import CheckScore
from sluicegate.gateway.commands.eval.outcomes import CaseReply
from sluicegate.gateway.commands.eval.report import page
from sluicegate.gateway.commands.eval.summary import ScoredCase, TokenPrices, figures
from tests.console.axe import findings
from tests.console.browser import Browser
from tests.console.conftest import HOSTILE, needs_chromium

LONG = HOSTILE + "w" * 300


def a_report() -> str:
    case = Case(LONG, ({"role": "user", "content": LONG},), (), expected=LONG, tags=(LONG,), schema=True)
    checks = (CheckScore("answered", 0.0, False, LONG),)
    judged = {LONG: [ScoredCase(AskedCase(LONG, case, 0, CaseReply(text=LONG)), checks)]}
    report: dict[str, Any] = {
        "suite": LONG, "when": "now", "cases": 1, "notes": [LONG], "judge_agreement": None, "comparison": None,
        "variants": {name: figures(found, TokenPrices(), 1) for name, found in judged.items()},
    }  # fmt: skip
    return page(report, judged)


@needs_chromium
@pytest.mark.parametrize("width", [1400, 390])
def test_long_and_hostile_names_stay_within_the_page(tmp_path: Path, browser: Browser, width: int) -> None:
    (tmp_path / "report.html").write_text(a_report(), "utf-8")
    browser.go((tmp_path / "report.html").as_uri())
    browser.size(width, 1000)
    browser.until(f"innerWidth === {width}")
    try:
        browser.js("document.querySelector('details').open = true; true")
        assert browser.js("document.documentElement.scrollWidth") <= width
        assert browser.js("window.pwned") is None
        assert findings(browser) == []
    finally:
        browser.size(1400, 1000)
        browser.go("about:blank")
