"""Reports of `sluicegate eval` in the console: listed, opened, compared, with markup in every text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.operating import KEY, MARKUP, SHORT, choose, enter, is_harmless, operated, shows

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    folder: Path = tmp_path_factory.mktemp("evaluated")
    suite, reports = folder / "suite.toml", folder / "reports"
    cases = [
        {"id": f"{MARKUP} {n}", "prompt": f"{MARKUP} {n}", "expected": MARKUP, "checks": [kind], "tags": [SHORT]}
        for n, kind in enumerate(["contains", "answered", "answered"] * 20)
    ]
    tables = [f"[suite]\nname = {json.dumps(MARKUP)}"]
    for case in cases:
        tables += ["[[case]]", *(f"{name} = {json.dumps(value)}" for name, value in case.items())]
    suite.write_text("\n".join(tables))
    reports.mkdir()
    (reports / "broken <b>x.json").write_text("{")
    with operated(folder, telemetry={"evaluations": str(reports)}) as found:
        variants = ("--variant", f"{SHORT}1", "--variant", f"{SHORT}2")
        for _ in range(2):
            main(["eval", str(suite), "--url", found.url, "--key", KEY, "--json", "--save", str(reports), *variants])
        yield found


@pytest.fixture(autouse=True)
def away(browser: Browser) -> Iterator[None]:
    yield
    browser.go("about:blank")


def test_reports_are_listed_with_what_is_none(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "evaluations")
    browser.until("document.querySelectorAll('td a').length === 2")
    shows(browser, "broken <b>x.json")
    shows(browser, "no report")
    shows(browser, MARKUP)
    is_harmless(browser)


def test_a_report_shows_versions_side_by_side_and_every_case(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "evaluations")
    browser.until("document.querySelector('td a')")
    browser.js("document.querySelector('td a').click()")
    shows(browser, "Figures side by side")
    shows(browser, f"{SHORT}2 against {SHORT}1")
    assert browser.js("document.querySelectorAll('thead th').length") == 3
    is_harmless(browser)
    assert browser.js("document.querySelectorAll('.cases > details').length") == 50
    choose(browser, "which", "failing")
    browser.until("document.querySelectorAll('.cases > details').length === 20")
    browser.js("document.querySelector('.cases summary').click()")
    browser.until("document.querySelectorAll('.answers pre').length === 2")
    shows(browser, MARKUP)
    is_harmless(browser)


def test_two_reports_stand_side_by_side_under_an_address(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "evaluations")
    browser.until("document.querySelector('td a')")
    browser.js("document.querySelector('td a').click()")
    browser.until("document.getElementById('beside')")
    other = browser.js("document.getElementById('beside').options[1].value")
    choose(browser, "beside", other)
    browser.until("document.querySelectorAll('thead th').length === 5")
    assert "with=" in browser.js("location.hash")
    is_harmless(browser)


def test_without_a_folder_the_page_says_how_to_have_one(browser: Browser, tmp_path: Path) -> None:
    with operated(tmp_path) as bare:
        enter(browser, bare, "evaluations")
        shows(browser, "[telemetry] evaluations")
        browser.go(f"{bare.url}/console#/evaluations/none.json")
        browser.go("about:blank")


def test_a_report_that_is_gone_is_an_error_in_words(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "evaluations/..%2Fsecret.json")
    shows(browser, "This could not be read")
