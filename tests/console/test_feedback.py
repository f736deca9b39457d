"""What callers said of answers, in the console: with markup in it, and comments only where somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.operating import KEY, MARKUP, bearer, enter, is_harmless, operated, press, shows

pytestmark = needs_chromium
BUTTON = "document.querySelector('.paged .pager button').getBoundingClientRect().top"
LOWEST_ROW = "document.querySelector('.paged tbody tr:last-child').getBoundingClientRect().bottom"
COMMENT = f"The total is wrong. {MARKUP}{'w' * 3000}"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestApp, str]]:
    """Yield a gateway, and the request that something was said of."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    folder: Path = tmp_path_factory.mktemp("told")
    with operated(folder, feedback={"secret": "ab" * 32}) as app:
        id = app.client.post("/v1/chat/completions", json=body, headers=bearer("secret-a")).json()["id"]
        given = {"request_id": id, "score": 0.25, "label": MARKUP, "comment": COMMENT}
        assert app.client.post("/v1/feedback", json=given, headers=bearer("secret-a")).status_code == 200
        yield app, id


@pytest.fixture(autouse=True)
def away(browser: Browser) -> Iterator[None]:
    yield
    browser.go("about:blank")


@pytest.mark.parametrize("place", ["evaluations", "trace"])
@pytest.mark.parametrize("width", [1400, 390])
def test_a_comment_is_shown_where_somebody_asks(
    told: tuple[TestApp, str], browser: Browser, place: str, width: int
) -> None:
    app, id = told
    browser.size(width, 1000)
    try:
        enter(browser, app, place if place != "trace" else f"trace/{quote(id)}")
        shows(browser, "0.25")
        shows(browser, MARKUP)
        shows(browser, "not read yet")
        assert "The total is wrong" not in browser.text()
        assert browser.js(f"{LOWEST_ROW} <= {BUTTON}")
        press(browser, "Read the comments")
        shows(browser, COMMENT)
        shows(browser, "Reading this was logged")
        assert browser.js(f"{LOWEST_ROW} <= {BUTTON}")
        assert browser.js("document.documentElement.scrollWidth") <= width
        is_harmless(browser)
    finally:
        browser.size(1400, 1000)


def test_an_answer_of_which_nobody_spoke_says_so(told: tuple[TestApp, str], browser: Browser) -> None:
    app, _ = told
    id = app.client.post(
        "/v1/chat/completions",
        json={"model": "scripted", "messages": [{"role": "user", "content": "again"}]},
        headers=bearer(KEY),
    ).json()["id"]
    enter(browser, app, f"trace/{quote(id)}")
    shows(browser, "Nobody said anything of this answer")


def test_a_gateway_that_takes_no_feedback_shows_none(tmp_path: Path, browser: Browser) -> None:
    with operated(tmp_path, feedback={"enabled": False}) as app:
        enter(browser, app, "evaluations")
        shows(browser, "Reports")
        assert "Feedback" not in browser.text()
        browser.go("about:blank")
