"""The console in a real Chromium: what it shows, who may see it, by keyboard alone, and against hostile content."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.contract.names import SLOTS
from tests.console.browser import Browser
from tests.console.conftest import KEY, SCHEMA, ask, body, enter, needs_chromium
from tests.console.operating import answer, press
from tests.gateway.conftest import RunningGateway, running
from tests.waiting import LIMIT_S

# --- its data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["overview", "requests", "requests/x", "feed"])
def test_data_is_for_operators_only(gateway: RunningGateway, path: str) -> None:
    """Without a key, with a wrong one and with a caller's there is nothing to see."""
    assert ask(gateway, f"/admin/console/{path}", None).status_code == 401
    assert ask(gateway, f"/admin/console/{path}", "wrong").status_code == 401
    assert ask(gateway, f"/admin/console/{path}", "plain-key-for-tests").status_code == 403


def test_the_page_holds_nothing_and_forbids_everything_but_its_own_files(gateway: RunningGateway) -> None:
    page = ask(gateway, "/console", None)
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    for name in ("../views.py", "%2e%2e%2fviews.py", "nothing.js"):
        assert ask(gateway, f"/console/{name}", None).status_code == 404
    sources = [httpx.get(f"{gateway.url}/console/{name}").text for name in ("app.js", "dom.js", "console.css")]
    assert not [s for s in [page.text, *sources] if "https://" in s or "innerHTML" in s]


def test_each_slot_of_a_trace_has_a_colour_of_its_own(gateway: RunningGateway) -> None:
    """`record` has none: it runs when the trace has ended."""
    styles = "".join(httpx.get(f"{gateway.url}/console/{name}").text for name in ("console.css", "trace.css"))
    coloured = [s for s in SLOTS if f".slot-{s} {{ background: var(--slot-{s})" in styles and f"--slot-{s}: " in styles]
    assert coloured == [slot for slot in SLOTS if slot != "record"]


def test_a_request_is_told_from_its_arrival_to_its_end(gateway: RunningGateway) -> None:
    """Spans nest and lie within the request; content is shown because the operator opted in."""
    recent = ask(gateway, "/admin/console/requests").json()["recent"]
    found = ask(gateway, f"/admin/console/requests/{recent[-1]['id']}").json()
    names = [span["name"] for span in found["spans"]]
    assert {"chat bundled", "queue", "prefill", "decode", "constrain grammar"} <= set(names)
    assert all(span["at_ms"] >= -0.01 and span["at_ms"] + span["ms"] <= found["ms"] + 1 for span in found["spans"])
    assert "Aarhus" in found["messages"][0]["text"]
    assert ask(gateway, f"/admin/console/requests/{found['trace']}").json()["id"] == found["id"]
    assert ask(gateway, "/admin/console/requests/unknown").status_code == 404


def test_the_overview_counts_what_was_served(gateway: RunningGateway) -> None:
    told = ask(gateway, "/admin/console/overview").json()
    assert told["seen"] >= 2
    assert told["histograms"]["total"]["count"] == sum(told["histograms"]["total"]["counts"]) >= 2
    assert sum(s["requests"] for s in told["series"]) == told["seen"]
    assert told["models"][0]["name"] == "bundled"
    assert {rail for rail, _, _ in told["verdicts"]} == {"secrets"}


def test_the_feed_says_what_runs_and_what_has_ended(gateway: RunningGateway) -> None:
    heads = {"authorization": f"Bearer {KEY}"}
    with httpx.stream("GET", f"{gateway.url}/admin/console/feed", headers=heads, timeout=LIMIT_S) as feed:
        lines = (line for line in feed.iter_lines() if line.startswith("data: "))
        assert json.loads(next(lines)[6:])["ended"] == []
        asked = body("Ada lives in London.", sluicegate={"cache": False})
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=asked, headers=heads).status_code == 200
        ended = next(found for line in lines if (found := json.loads(line[6:])["ended"]))
    assert ended[0]["model"] == "bundled"


def test_without_opting_in_no_text_is_kept() -> None:
    """Not even as tokens, where the caller asked for an explanation."""
    with running() as plain:
        asked = body("the walrus is in the kitchen", sluicegate={"explain": True})
        assert httpx.post(f"{plain.url}/v1/chat/completions", json=asked).status_code == 200
        [line] = httpx.get(f"{plain.url}/admin/console/requests").json()["recent"]
        told = httpx.get(f"{plain.url}/admin/console/requests/{line['id']}")
    assert "walrus" not in told.text
    assert "messages" not in told.json()
    assert told.json()["tokens"] == []


def test_the_console_can_be_switched_off() -> None:
    with running({"telemetry": {"console": False}}) as plain:
        assert httpx.get(f"{plain.url}/console").status_code == 404
        assert httpx.get(f"{plain.url}/admin/console/overview").status_code == 404
        assert list(plain.runtime.trace_sink.recent()) == []


# --- in the browser --------------------------------------------------------------------------------------------------


@needs_chromium
def test_the_key_opens_the_console_and_stays_in_the_tab(gateway: RunningGateway, browser: Browser) -> None:
    browser.go(f"{gateway.url}/console")
    browser.js("sessionStorage.clear()")
    browser.go(f"{gateway.url}/console?again")
    browser.until("document.getElementById('key')")
    browser.js("document.getElementById('key').value='wrong'; document.querySelector('form').requestSubmit()")
    browser.until("document.querySelector('[role=alert]')")
    browser.js(
        f"document.getElementById('key').value={json.dumps(KEY)}; document.querySelector('form').requestSubmit()"
    )
    browser.until("document.querySelector('.tiles')")
    assert browser.js("document.cookie") == ""
    assert browser.js("JSON.stringify(localStorage)").find(KEY) == -1
    assert KEY not in browser.js("location.href")


@needs_chromium
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("overview", "Objectives"),
        ("requests", "Running now"),
        ("playground", "JSON schema of the answer"),
        ("cache", "Prefix cache"),
        ("keys", "Cost over time"),
        ("rails", "Try a text"),
        ("evaluations", "Reports"),
        ("reviews", "Reviews"),
        ("models", "Served now"),
    ],
)
def test_every_section_is_drawn(gateway: RunningGateway, browser: Browser, place: str, expected: str) -> None:
    enter(gateway, browser, place)
    browser.until(f"document.body.innerText.includes({json.dumps(expected)})")
    assert browser.js("document.querySelectorAll('h1').length") == 1
    assert browser.js("document.querySelector('nav [aria-current=page]') !== null")


@needs_chromium
def test_a_trace_shows_where_the_milliseconds_went(gateway: RunningGateway, browser: Browser) -> None:
    """One line for each span; choosing one says what its stage said."""
    line = next(line for line in ask(gateway, "/admin/console/requests").json()["recent"] if line["key"] == "op")
    spans = ask(gateway, f"/admin/console/requests/{line['id']}").json()["spans"]
    enter(gateway, browser, f"trace/{line['id']}")
    browser.until("document.querySelector('.waterfall')")
    assert browser.js("document.querySelectorAll('button.wrow').length") == len(spans)
    browser.js("[...document.querySelectorAll('button.wrow')].find(b => b.innerText.startsWith('prefill')).click()")
    browser.until("document.body.innerText.includes('gen_ai.usage.input_tokens')")


@needs_chromium
def test_hostile_prompts_keys_and_tenants_stay_text(gateway: RunningGateway, browser: Browser) -> None:
    """Markup in a prompt, a key's name and a tenant is shown as it was written, and nothing of it runs."""
    line = next(
        line for line in ask(gateway, "/admin/console/requests").json()["recent"] if "<b>" in (line["key"] or "")
    )
    enter(gateway, browser, "requests")
    browser.until("document.body.innerText.includes('<b>bold</b>')")
    enter(gateway, browser, f"trace/{line['id']}")
    browser.until("document.body.innerText.includes('onerror=')")
    time.sleep(0.3)
    assert browser.js("window.pwned === undefined")
    assert browser.js("document.querySelectorAll('#main img, #main script, #main b').length") == 0
    assert "<script>window.pwned=1</script>" in browser.text()


@needs_chromium
def test_script_that_got_into_the_page_would_not_run(gateway: RunningGateway, browser: Browser) -> None:
    """The policy behind the care: markup is refused, inline script and foreign addresses are blocked."""
    enter(gateway, browser)
    refused = "(() => { try { document.body.innerHTML = '<i>x</i>'; return false } catch { return true } })()"
    assert browser.js(refused)
    browser.js("(() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i) })()")
    gone = "fetch('http://127.0.0.1:9/').then(() => 'went').catch(() => 'blocked')"
    assert browser.js(gone) == "blocked"
    browser.until("true")
    assert any("violates" in line for line in browser.complaints())


@needs_chromium
def test_the_playground_streams_a_structured_answer_and_tells_its_tokens(
    gateway: RunningGateway, browser: Browser
) -> None:
    enter(gateway, browser, "playground")
    browser.js("document.getElementById('schema').value = " + json.dumps(json.dumps(SCHEMA)))
    browser.js("document.getElementById('prompt').value = 'My name is Clara Winther and I live in Aarhus.'")
    browser.js("document.getElementById('temperature').value = '0'")
    browser.js("document.querySelector('form').requestSubmit()")
    browser.until("document.querySelector('.token')")
    answer = json.loads(browser.js("document.querySelector('.answer').textContent"))
    assert set(answer) <= {"name", "city"}
    assert browser.js("document.querySelectorAll('.token.forced').length") > 1
    browser.js("document.querySelector('.tokens .token').focus()")
    before = browser.js("document.activeElement.getAttribute('aria-label')")
    browser.press("ArrowRight")
    assert browser.js("document.activeElement.getAttribute('aria-label')") != before


@needs_chromium
def test_the_playground_says_what_is_wrong_with_a_schema(gateway: RunningGateway, browser: Browser) -> None:
    enter(gateway, browser, "playground")
    browser.js("document.getElementById('schema').value = '{'; document.querySelector('form').requestSubmit()")
    browser.until("document.body.innerText.includes('not JSON')")
    browser.js(
        "document.getElementById('schema').value = '{\"type\": 7}'; document.querySelector('form').requestSubmit()"
    )
    browser.until("document.body.innerText.includes('The gateway refused')")


@needs_chromium
def test_the_keyboard_reaches_everything(gateway: RunningGateway, browser: Browser) -> None:
    """Skip link first, then the sections; a trace opens and its lines are chosen without a pointer."""
    enter(gateway, browser, "requests")
    browser.until("document.querySelector('tbody a')")
    browser.js("document.body.focus(); document.activeElement.blur()")
    browser.press("Tab")
    assert browser.js("document.activeElement.className") == "skip"
    reached = []
    for _ in range(60):
        browser.press("Tab")
        reached.append(browser.js("document.activeElement.innerText || document.activeElement.tagName"))
        if browser.js("document.activeElement.matches('tbody a')"):
            break
    assert {"Overview", "Requests", "Playground", "Models"} <= set(reached)
    browser.press("Enter")
    browser.until("document.querySelector('.waterfall')")
    browser.js("document.querySelector('button.wrow').focus()")
    browser.press("Enter")
    assert browser.js("document.querySelector('button.wrow').getAttribute('aria-pressed')") == "true"


@needs_chromium
def test_nothing_went_wrong_while_all_of_that_was_shown(gateway: RunningGateway, browser: Browser) -> None:
    """No exception, and no complaint but those that the tests above provoked."""
    provoked = ("violates", "401", "403", "404", "400", "net::ERR", "ERR_", "TrustedHTML", "Trusted Type")
    assert [line for line in browser.complaints() if not any(word in line for word in provoked)] == []


@needs_chromium
def test_the_button_brings_the_version_before_back(browser: Browser) -> None:
    """A real route with two versions: changed over HTTP, rolled back by a click."""
    routing = {"models": {"m": {"weights": {"m@1": 100, "m@2": 0}}}}
    with TestApp(settings={"routing": routing}, names=("m@1", "m@2")) as app:
        changed = app.client.put("/admin/routes/m/weights", json={"weights": {"m@1": 0, "m@2": 1}})
        assert changed.status_code == 200, changed.text
        browser.go(f"{app.url}/console#/models")
        browser.until("document.querySelector('button.danger')")
        press(browser, "Roll back")
        answer(browser, "Cancel")
        assert app.client.get("/admin/routes").json()["data"][0]["weights"]["m@1"] == 0
        press(browser, "Roll back")
        answer(browser, "Roll back")
        browser.until("document.body.innerText.includes('is back at')")
        browser.until("document.querySelector('button.danger').disabled")
        assert app.client.get("/admin/routes").json()["data"][0]["weights"]["m@1"] > 0
        browser.go("about:blank")  # its feed would keep the server waiting
