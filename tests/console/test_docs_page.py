"""`/docs` in a browser: the key is asked for once, and every request on the page can be tried there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console.browser import Browser
from tests.console.conftest import KEY, body, needs_chromium
from tests.console.operating import KEY as OPERATOR
from tests.console.operating import operated, press
from tests.gateway.conftest import RunningGateway

pytestmark = needs_chromium
_ANSWER = "document.querySelector('main pre').textContent"
_FINISHED = f"/^\\d{{3}}\\n./.test({_ANSWER})"


def opened(url: str, browser: Browser, key: str) -> Browser:
    """Return the page as it is once the key is given."""
    browser.go("about:blank")
    browser.go(f"{url}/docs")
    browser.until("document.querySelector('main input')")
    browser.js(f"document.querySelector('main input').value = {json.dumps(key)}")
    press(browser, "Show")
    browser.until("document.querySelector('h2.title')")
    browser.events.clear()  # Chromium logs the refused look without a key
    return browser


@pytest.fixture
def page(gateway: RunningGateway, browser: Browser) -> Browser:
    return opened(gateway.url, browser, KEY)


@pytest.mark.parametrize("button", ["Send", "Send, streamed"])
def test_a_request_can_be_tried_where_it_is_described(button: str, page: Browser) -> None:
    """The answer stands below the button, and the page stays as it is."""
    text = json.dumps(json.dumps(body("Clara Winther lives in Aarhus.")))
    page.js(f"document.querySelector('textarea').value = {text}")
    press(page, button)
    page.until(f"{_FINISHED} && {_ANSWER}.includes('finish_reason')")
    assert page.js(_ANSWER).startswith("200\n")
    assert "Clara" in page.js(_ANSWER)
    assert page.js("document.querySelector('h2.title code').textContent") == "/v1/chat/completions"
    assert page.complaints() == []


def test_what_is_read_without_a_body_can_be_tried_as_well(page: Browser) -> None:
    page.js("location.hash = '#get/v1/models'")
    page.until("document.querySelector('h2.title code').textContent === '/v1/models'")
    press(page, "Send")
    page.until(_FINISHED)
    assert page.js(_ANSWER).startswith("200\n")
    assert "bundled" in page.js(_ANSWER)


def test_a_body_without_an_example_begins_with_what_is_required(page: Browser) -> None:
    page.js("location.hash = '#post/admin/rails/try'")
    page.until("document.querySelector('h2.title code').textContent === '/admin/rails/try'")
    assert json.loads(page.js("document.querySelector('textarea').value")) == {"text": ""}


def test_a_file_can_be_sent(tmp_path: Path, browser: Browser) -> None:
    """As a form of several parts, which the browser writes itself."""
    with operated(tmp_path, batches={"path": str(tmp_path / "batches")}) as gateway:
        page = opened(gateway.url, browser, OPERATOR)
        page.js("location.hash = '#post/v1/files'")
        page.until("document.querySelector('input[type=file]')")
        page.js(
            "(() => { const held = new DataTransfer(); held.items.add(new File(['{}'], 'lines.jsonl'));"
            " document.querySelector('input[type=file]').files = held.files;"
            " document.querySelector('input[aria-label=purpose]').value = 'batch' })()"
        )
        press(page, "Send")
        page.until(_FINISHED)
        assert page.js(_ANSWER).startswith("200\n")
        assert "lines.jsonl" in page.js(_ANSWER)


def test_every_operation_can_be_shown(page: Browser) -> None:
    """Each link of the page shows its operation, and nothing goes wrong on the way."""
    links = page.js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert len(links) > 60
    for link in links:
        page.js(f"location.hash = {json.dumps(link)}")
        page.until(f"document.querySelector('nav a.on').getAttribute('href') === {json.dumps(link)}")
        assert page.js("document.querySelector('main h3') !== null")
    assert page.complaints() == []


def test_a_wrong_key_is_asked_for_again(gateway: RunningGateway, browser: Browser) -> None:
    browser.go("about:blank")
    browser.go(f"{gateway.url}/docs")
    browser.until("document.querySelector('main input')")
    browser.js("document.querySelector('main input').value = 'not a key'")
    press(browser, "Show")
    browser.until("document.querySelector('main').textContent.includes('not accepted')")
    assert browser.js("document.querySelector('main input').value") == ""


def test_names_stand_as_code_and_no_backtick_is_shown(page: Browser) -> None:
    assert page.js("[...document.querySelectorAll('main .about code')].length") > 10
    assert "`" not in page.js("document.querySelector('main .columns').innerText")


def test_in_a_narrow_window_an_operation_that_is_chosen_comes_into_view(page: Browser) -> None:
    """The list of all operations stands above it there."""
    page.call("Emulation.setDeviceMetricsOverride", width=500, height=900, deviceScaleFactor=1, mobile=False)
    try:
        link = "document.querySelector('nav a[href=\"#post/v1/embeddings\"]').click()"
        page.js(link)
        page.until("document.querySelector('h2.title code').textContent === '/v1/embeddings'")
        page.until("Math.abs(document.querySelector('main').getBoundingClientRect().top) < 5")
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")
