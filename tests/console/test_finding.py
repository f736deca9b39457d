"""Finding a request in the console, and what a trace explains: with markup in every field that anybody chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import HOSTILE, KEY, enter, needs_chromium
from tests.waiting import until

REVIEWER = "reviewer-key-for-tests"
SCHEMA = {"type": "object", "properties": {HOSTILE: {"enum": [HOSTILE]}}, "description": HOSTILE}
TOOL = {"type": "function", "function": {"name": "look_up", "description": HOSTILE, "parameters": SCHEMA}}
SHAPED = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**SCHEMA, "required": [HOSTILE]}}}
MARKUP = "document.querySelectorAll('#main img, #main script, #main b:not(.legend b), #main svg svg').length"


@pytest.fixture(scope="module")
def busy() -> Iterator[TestApp]:
    """Run a gateway that was asked two pages of requests: answered ones, then one refused by a rail, one that names no
    model, one that failed."""
    keys: list[dict[str, Any]] = [
        {"id": "op", "key": KEY, "scopes": ["admin"]},
        {"id": HOSTILE[:60], "key": REVIEWER, "scopes": ["admin", "review"], "tenant": HOSTILE[:60]},
    ]
    far = {"url": "http://127.0.0.1:9/v1", "allow_private": True, "retries": 0, "failures_to_open": 1, "pause_s": 60}
    app = TestApp(
        pipeline={"admit": ["api-keys"], "screen": ["blocklist"], "generate": ["scripted", "upstream"]},
        stages={
            "screen": {"blocklist": {"phrases": ["halberd"], "action": "block"}},
            "generate": {"upstream": {"models": {"far": far}}},
        },
        keys=keys,
        settings={"telemetry": {"content": True}},
    )
    with app:
        for _ in range(60):
            send(app, "hello")
        send(app, HOSTILE, key=REVIEWER, feature="search", tools=[TOOL], user=HOSTILE)
        send(app, f"the halberd {HOSTILE}", key=REVIEWER, feature="search")
        send(app, "hello", model=HOSTILE)
        for _ in range(2):
            send(app, "hello", model="far", response_format=SHAPED)
        until(lambda: len(rows(app, limit=100)) >= 65, 60)
        yield app


def send(app: TestApp, text: str, *, key: str = KEY, feature: str = "", **fields: Any) -> int:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **fields}
    heads = {"authorization": f"Bearer {key}", "x-sluicegate-feature": feature}
    return int(app.client.post("/v1/chat/completions", json=body, headers=heads).status_code)


def rows(app: TestApp, **params: Any) -> list[dict[str, Any]]:
    found = app.client.get("/admin/console/requests", params=params, headers={"authorization": f"Bearer {KEY}"})
    assert found.status_code == 200, found.text
    return list(found.json()["recent"])


def shown(browser: Browser) -> int:
    return int(browser.js("document.querySelectorAll('.paged tbody tr').length"))


def choose(browser: Browser, name: str, value: str) -> None:
    """Set a filter as a person does."""
    field = f"document.getElementById('filter-{name}')"
    browser.js(
        f"({field}.value = {json.dumps(value)}, {field}.dispatchEvent(new Event('change', {{ bubbles: true }})), 0)"
    )


@needs_chromium
def test_filters_narrow_the_list_and_stay_in_the_address(busy: TestApp, browser: Browser) -> None:
    enter(busy, browser, "requests")
    for name, value, count in (("outcome", "refused", 1), ("key", HOSTILE[:60], 1), ("feature", "search", 1)):
        choose(browser, name, value)
        browser.until(f"document.querySelectorAll('.paged tbody tr').length === {count}")
    address = browser.js("location.hash")
    assert "outcome=refused" in address
    enter(busy, browser, address.removeprefix("#/"))
    browser.until("document.querySelectorAll('.paged tbody tr').length === 1")
    assert browser.js("document.getElementById('filter-outcome').value") == "refused"
    browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Clear').click()")
    browser.until("document.querySelectorAll('.paged tbody tr').length === 50")
    choose(browser, "outcome", "failed")
    browser.until("document.querySelectorAll('.paged tbody tr').length === 2")


@needs_chromium
def test_a_request_is_found_by_part_of_its_id_and_by_its_trace(busy: TestApp, browser: Browser) -> None:
    line = rows(busy, outcome="rejected")[0]
    enter(busy, browser, "requests")
    for sought in (line["id"][-12:], line["trace"]):
        choose(browser, "q", sought)
        browser.until("document.querySelectorAll('.paged tbody tr').length === 1")
        assert line["id"] in browser.js("document.querySelector('.paged tbody a').getAttribute('href')")


@needs_chromium
def test_pages_lead_to_every_request_once(busy: TestApp, browser: Browser) -> None:
    enter(busy, browser, "requests?model=scripted&outcome=answered")
    hrefs = "JSON.stringify([...document.querySelectorAll('.paged tbody a')].map(a => a.getAttribute('href')))"
    browser.until("document.querySelectorAll('.paged tbody tr').length === 50")
    first = json.loads(browser.js(hrefs))
    browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Older').click()")
    browser.until("document.body.innerText.includes('page 2')")
    second = json.loads(browser.js(hrefs))
    assert len(set(first) | set(second)) == len(first) + len(second) == len(rows(busy, outcome="answered", limit=200))
    assert browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Older').disabled")


@needs_chromium
def test_what_ends_now_comes_by_itself(busy: TestApp, browser: Browser) -> None:
    enter(busy, browser, "requests?feature=tail")
    browser.until("document.body.innerText.includes('No request is kept that fits')")
    browser.until("document.getElementById('pulse').className.includes('on')")
    assert send(busy, "hello", feature="tail") == 200
    browser.until("document.querySelectorAll('.paged tbody tr').length === 1")


@needs_chromium
@pytest.mark.parametrize(
    ("filters", "stage", "told"),
    [
        ({"outcome": "refused"}, "rail blocklist", "A rail refused it: content filter, status 400"),
        ({"outcome": "rejected"}, "route", "The caller has to mend it"),
        ({"ended": "upstream_unavailable"}, "generate", "It failed here: upstream unavailable, status 503"),
    ],
)
def test_a_trace_opens_on_what_went_wrong(
    busy: TestApp, browser: Browser, filters: dict[str, str], stage: str, told: str
) -> None:
    """Coloured, chosen, and in the words that the caller was told; nothing of it as markup."""
    line = rows(busy, **filters)[0]
    enter(busy, browser, f"trace/{line['id']}")
    chosen = "document.querySelector('.wrow[aria-pressed=true]')"
    assert browser.js(f"{chosen}.textContent").startswith(stage)
    assert browser.js(f"{chosen}.querySelector('.span.bad') !== null")
    assert told in browser.text()
    assert browser.js(MARKUP) == 0
    assert browser.js("window.pwned === undefined")


@needs_chromium
def test_a_trace_shows_parameters_schema_and_tools_as_text(busy: TestApp, browser: Browser) -> None:
    for line in (rows(busy, feature="search", outcome="answered")[0], rows(busy, ended="upstream_unavailable")[0]):
        enter(busy, browser, f"trace/{line['id']}")
        browser.js("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert "onerror=" in browser.text()
        assert browser.js(MARKUP) == 0
        assert browser.js("window.pwned === undefined")


@needs_chromium
def test_withheld_text_opens_for_reviewers_alone(busy: TestApp, browser: Browser) -> None:
    line = rows(busy, outcome="refused")[0]
    enter(busy, browser, f"trace/{line['id']}")
    browser.until("document.body.innerText.includes('It is open to keys with the scope review')")
    assert "halberd" not in browser.text()
    browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(REVIEWER)})")
    browser.go(f"{busy.url}/console?reviewer#/trace/{line['id']}")
    button = "[...document.querySelectorAll('button')].find(b => b.textContent === 'Read what was withheld')"
    browser.until(button)
    browser.js(f"{button}.click()")
    browser.until("document.body.innerText.includes('the halberd')")
    assert browser.js(MARKUP) == 0


@needs_chromium
def test_every_figure_of_the_overview_leads_to_the_requests_it_counts(busy: TestApp, browser: Browser) -> None:
    """The number in the tile or cell is the number of lines behind its link."""
    enter(busy, browser, "overview")
    browser.until("document.querySelector('.tiles dd a')")
    links = json.loads(
        browser.js(
            "JSON.stringify([...document.querySelectorAll('.tiles dd a, td a')].map(a => [a.hash, a.textContent]))"
        )
    )
    counted = [(where, text) for where, text in links if text.isdigit() and "over_ms" not in where]
    assert len(counted) >= 8
    for where, text in counted:
        browser.js(f"location.hash = {json.dumps(where)}")
        browser.until("document.querySelector('.pager')")
        expected = f"{text} found" if text != "0" else "No request is kept"
        browser.until(f"document.body.innerText.includes({json.dumps(expected)})", 20)


@needs_chromium
def test_a_bar_leads_to_the_requests_of_its_slice(busy: TestApp, browser: Browser) -> None:
    enter(busy, browser, "overview?last=900")
    browser.until("document.querySelector('.column.opens')")
    bar = "document.querySelector('.column.opens').getBoundingClientRect()"
    x, y = browser.js(f"(r => [r.x + r.width / 2, r.bottom - 3])({bar})")
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.until("location.hash.startsWith('#/requests?from=')")
    browser.until("document.querySelectorAll('.paged tbody tr').length > 0")
    enter(busy, browser, "overview?last=900&model=far")
    browser.js("document.querySelector('.columns-chart ~ details').open = true")
    browser.js("document.querySelector('.columns-chart ~ details a').click()")
    browser.until("location.hash.startsWith('#/requests?model=far&from=')")
    browser.until("document.querySelectorAll('.paged tbody tr').length > 0")


@needs_chromium
def test_models_names_the_server_that_is_left_alone(busy: TestApp, browser: Browser) -> None:
    enter(busy, browser, "models")
    browser.until("document.body.innerText.includes('unavailable: left alone after failures')")
    assert "127.0.0.1:9" in browser.text()
    assert "overloaded" not in browser.text()
    browser.js(
        "[...document.querySelectorAll('tr')].find(r => r.textContent.startsWith('far')).querySelector('a').click()"
    )
    browser.until("location.hash.startsWith('#/requests?model=far')")
    browser.until("document.querySelectorAll('.paged tbody tr').length === 2")


@needs_chromium
def test_hostile_names_stay_text_on_every_page(busy: TestApp, browser: Browser) -> None:
    for place in ("overview", "requests", "models"):
        enter(busy, browser, place)
        browser.until("document.querySelector('tbody')")
        assert browser.js(MARKUP) == 0, place
        assert browser.js("window.pwned === undefined")
    enter(busy, browser, "overview")
    browser.until("document.body.innerText.includes('onerror=')")
