"""Why did it fail? Asked at three in the morning by who has never seen the console: from Overview, by two clicks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.night import KEY, MARKUP, OUT_OF_MEMORY, kept, night

pytestmark = needs_chromium
WHY = {
    "server-fails": ("upstream failed", "failed with status 500", "the disk of shard 7 is full"),
    "server-is-silent": ("upstream failed", "did not answer in time", "no_answer_in_time"),
    "rail-blocks": ("content filter", "the safety check 'blocklist' refused the request", "blocklist (screen): block"),
    "schema-refused": ("invalid schema", "the schema is malformed", "/type"),
    "over-budget": ("insufficient quota", "the budget of key 'spent' for this day", "admit limits"),
    "rate-limit": ("rate limit exceeded", "key 'eager' has used 1 of its 1 requests a minute", "admit limits"),
    "hung-up": ("cancelled", "The caller left", "generate"),
    "no-place": ("overloaded", "requests wait for model 'busy', as many as may", "generate"),
    "out-of-memory": ("overloaded", OUT_OF_MEMORY, "generate"),
}
"""By what went wrong: the row of Overview that leads to it, and what its trace says."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with night(tmp_path_factory.mktemp("night")) as found:
        yield found


@pytest.fixture(autouse=True)
def away(browser: Browser) -> Iterator[None]:
    yield
    browser.go("about:blank")


def follow(browser: Browser, link: str) -> None:
    """Click what a person would see, and wait for the page behind it."""
    browser.until(link)
    browser.js(f"({link}).click()")


@pytest.mark.parametrize("way", WHY)
def test_why_it_failed_is_two_clicks_from_the_overview(app: TestApp, browser: Browser, way: str) -> None:
    row, said, where = WHY[way]
    [line] = [one for one in kept(app, limit=100, feature=way)["recent"] if one["outcome"] != "answered"][:1]
    browser.go(f"{app.url}/console")
    browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(KEY)})")
    browser.go("about:blank")
    browser.go(f"{app.url}/console#/overview")
    rows = "[...document.querySelectorAll('tbody tr')]"
    follow(browser, f"{rows}.find(r => r.cells[0].textContent === {json.dumps(row)})?.querySelector('a')")
    follow(browser, f"document.querySelector('.paged tbody a[href$={json.dumps(line['id'])}]')")
    browser.until("document.querySelector('[aria-label=\"What went wrong\"]')")
    assert said in browser.js("document.querySelector('[aria-label=\"What went wrong\"]').innerText")
    assert where in browser.text()
    chosen = "document.querySelector('.wrow[aria-pressed=true]')"
    assert browser.js(f"{chosen}.querySelector('.span.bad, .span.warn, .span.left') !== null"), way
    assert browser.js("window.pwned === undefined && !document.querySelector('#main img, #main b:not(.legend b)')")


def test_what_a_server_says_is_shown_as_text(app: TestApp, browser: Browser) -> None:
    [line] = kept(app, feature="server-fails")["recent"]
    told = app.client.get(f"/admin/console/requests/{line['id']}", headers={"authorization": f"Bearer {KEY}"}).json()
    [tried] = [span for span in told["spans"] if span["name"].startswith("try ")]
    assert "the disk of shard 7 is full" in tried["attributes"]["sluicegate.try.said"]
    assert MARKUP[:40] in tried["attributes"]["sluicegate.try.said"]
