"""The console in more tabs of one browser than it has connections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.operating import enter, operated, say

pytestmark = needs_chromium
CONNECTIONS = 6
"""What a browser opens to one address, for all of its tabs together."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with operated(tmp_path_factory.mktemp("tabs")) as found:
        yield found


@pytest.fixture
def tabs(browser: Browser) -> Iterator[list[str]]:
    """Tabs that the test opens; the one of all tests is in use again afterwards."""
    first = browser.tab
    opened: list[str] = []
    yield opened
    browser.turn_to(first)
    for tab in opened:
        browser.close_tab(tab)
    browser.go("about:blank")


def see(browser: Browser, is_seen: bool) -> None:
    """Hide or show the page, as where another tab of the window is chosen, or this one again: without a screen a
    browser says neither."""
    hidden = "false" if is_seen else "true"
    browser.js(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); true")
    browser.js("document.dispatchEvent(new Event('visibilitychange'))")


def test_more_tabs_open_than_a_browser_has_connections(app: TestApp, browser: Browser, tabs: list[str]) -> None:
    for _ in range(CONNECTIONS + 2):
        tabs.append(browser.open_tab())
        enter(browser, app, "requests")
        browser.until("document.getElementById('pulse').className === 'pulse on'")
        see(browser, False)
    browser.turn_to(tabs[0])
    assert say(app, "while nobody looks") == 200
    before = browser.js("document.querySelectorAll('tbody tr').length")
    see(browser, True)
    browser.until(f"document.querySelectorAll('tbody tr').length > {before}")
    browser.go("about:blank")
