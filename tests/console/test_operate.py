"""Keys and teams, rails and cache in a real Chromium: each flow, with markup in every name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.operating import (
    KEY,
    MARKUP,
    SHORT,
    answer,
    audited,
    bearer,
    choose,
    enter,
    fill,
    is_harmless,
    operated,
    press,
    say,
    shows,
)

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with operated(tmp_path_factory.mktemp("operated")) as found:
        assert say(found, "hello") == 200
        assert say(found, "hello") == 200
        assert say(found, "the walrus") == 400
        report = {"text": f"{MARKUP} is harmless", "rail": "pii", "note": MARKUP}
        answered = found.client.post("/v1/safety/false_positives", json=report, headers=bearer("secret-a"))
        assert answered.status_code == 200, answered.text
        yield found


@pytest.fixture(autouse=True)
def away(browser: Browser) -> Iterator[None]:
    """Leave the page after each test: one that is left open would keep the server of the next test waiting."""
    yield
    browser.go("about:blank")


def keys(app: TestApp) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in app.client.get("/admin/keys", headers=bearer(KEY)).json()["data"]}


# --- keys and teams ---------------------------------------------------------------------------------------------------


def test_a_key_is_made_its_secret_is_shown_once_and_works(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "keys")
    for id, value in (("new-id", "mobile"), ("new-team", MARKUP), ("new-tenant", MARKUP), ("new-scopes", "pii, x")):
        fill(browser, id, value)
    fill(browser, "new-budget_day", "250.5")
    fill(browser, "new-requests_per_minute", "7")
    press(browser, "Make the key")
    browser.until("document.getElementById('new-secret')")
    secret = browser.js("document.getElementById('new-secret').textContent")
    assert say(app, "hi", secret) == 200
    made = keys(app)["mobile"]
    assert made["limits"] == {"requests_per_minute": 7, "budget_day": 250.5}
    assert (made["tenant"], made["team"], made["scopes"]) == (MARKUP, MARKUP, ["pii", "x"])
    is_harmless(browser)
    enter(browser, app, "keys")
    assert secret not in browser.text()
    assert secret not in app.client.get("/admin/keys", headers=bearer(KEY)).text


def test_a_wrong_key_is_refused_in_words(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "keys")
    fill(browser, "new-id", MARKUP)
    browser.js("document.getElementById('new-key').noValidate = true")
    press(browser, "Make the key")
    shows(browser, "is no id")
    is_harmless(browser)


def test_limits_rotation_and_revocation_ask_first_and_leave_audit_lines(app: TestApp, browser: Browser) -> None:
    app.client.post("/admin/keys", json={"id": "doomed"}, headers=bearer(KEY))
    enter(browser, app, "keys")
    press(browser, "Limits: doomed")
    browser.until("document.querySelector('dialog[open]')")
    fill(browser, "limit-concurrency", "3")
    answer(browser, "Set limits")
    shows(browser, "The limits of key doomed are set.")
    assert keys(app)["doomed"]["limits"] == {"concurrency": 3}
    press(browser, "Rotate: doomed")
    answer(browser, "Rotate")
    browser.until("document.getElementById('new-secret')")
    secret = browser.js("document.getElementById('new-secret').textContent")
    assert say(app, "hi", secret) == 200
    press(browser, "Revoke: doomed")
    answer(browser, "Cancel")
    assert keys(app)["doomed"]["state"] == "active"
    press(browser, "Revoke: doomed")
    answer(browser, "Revoke")
    shows(browser, "doomed is revoked.")
    assert say(app, "hi", secret) == 401
    lines = [action for action, target in audited(app) if target == "doomed"]
    assert lines == ["keys.create", "keys.limits", "keys.rotate", "keys.revoke"]


def test_keys_of_the_configuration_have_no_buttons(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "keys")
    labels = browser.js("[...document.querySelectorAll('td button')].map(b => b.ariaLabel)")
    assert not [label for label in labels if label.endswith(": op") or label.endswith(f": {SHORT}")]
    shows(browser, SHORT)
    shows(browser, MARKUP)
    is_harmless(browser)


def test_budgets_are_shown_against_what_was_spent(app: TestApp, browser: Browser) -> None:
    """The meter says what the books say; a team's limits are set from its row."""
    enter(browser, app, "keys")
    press(browser, f"Limits: team {MARKUP}")
    browser.until("document.querySelector('dialog[open]')")
    fill(browser, "limit-budget_month", "1000")
    answer(browser, "Set limits")
    shows(browser, f"The limits of team {MARKUP} are set.")
    rows = app.client.get("/admin/usage?by=team", headers=bearer(KEY)).json()["data"]
    spent = next(row["cost"] for row in rows if row["team"] == MARKUP)
    assert spent > 0
    name = json.dumps(f"This month, team {MARKUP}")
    meter = f"[...document.querySelectorAll('[role=meter]')].find(m => m.ariaLabel === {name})"
    browser.until(meter)
    assert browser.js(f"Math.abs(Number({meter}.ariaValueNow) - {spent}) < 1e-9 && {meter}.ariaValueMax === '1000'")
    is_harmless(browser)


def test_cost_over_time_by_team_is_an_address(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "keys")
    choose(browser, "filter-by", "team")
    browser.until("location.hash.includes('by=team')")
    shows(browser, "by team")
    assert browser.js("document.querySelectorAll('.column').length") == 30
    assert browser.js("document.querySelectorAll('.column span.c0').length") >= 1
    choose(browser, "filter-days", "7")
    browser.until("document.querySelectorAll('.column').length === 7")
    enter(browser, app, "keys?q=walrus")
    shows(browser, "No key matches.")


def test_without_a_store_the_page_says_where_keys_stand(browser: Browser) -> None:
    with TestApp(keys=[{"id": "op", "key": KEY, "scopes": ["admin"]}], pipeline={"admit": ["api-keys"]}) as bare:
        enter(browser, bare, "keys")
        shows(browser, "This gateway keeps no keys")
        browser.go("about:blank")


# --- rails ------------------------------------------------------------------------------------------------------------

TEXT = f"😀 {MARKUP} my mail is jane.doe@example.org, the walrus waits"


def test_a_text_is_tried_on_all_rails_with_its_places_marked(app: TestApp, browser: Browser) -> None:
    """Places are counted in characters, as people count them, also behind an emoji."""
    enter(browser, app, "rails")
    fill(browser, "try-text", TEXT)
    press(browser, "Try on all rails")
    browser.until("document.querySelector('mark')")
    shown = browser.js(
        "[...document.querySelectorAll('mark')].map(m => [m.className.trim(), m.firstChild.textContent])"
    )
    assert ["redact", "jane.doe@example.org"] in shown
    assert ["block", "walrus"] in shown
    whole = browser.js(
        "[...document.querySelector('.tried').childNodes].map(n => n.firstChild?.data ?? n.data).join('')"
    )
    assert whole == TEXT
    assert browser.js("document.querySelector('mark.block').title").endswith("block")
    shows(browser, SHORT)
    is_harmless(browser)
    choose(browser, "try-policy", MARKUP)
    press(browser, "Try on all rails")
    shows(browser, "Nothing of this is kept or counted.")
    is_harmless(browser)


def test_an_empty_and_an_overlong_text_are_refused_in_words(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "rails")
    browser.js("document.getElementById('try-text').value = 'x'.repeat(100001)")
    press(browser, "Try on all rails")
    shows(browser, "at most 100000 are tried at a time")


def test_verdicts_categories_and_shadow_are_counted(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "rails")
    shows(browser, "Active and in shadow")
    shows(browser, "block 1")
    assert browser.js("document.querySelectorAll('.column span.block').length") == 1
    is_harmless(browser)
    choose(browser, "filter-rail", "injection")
    browser.until("location.hash.includes('rail=injection')")
    browser.until("document.querySelectorAll('.column span.block').length === 0")


def test_a_reported_false_alarm_is_read_and_removed(app: TestApp, browser: Browser) -> None:
    enter(browser, app, "rails")
    shows(browser, MARKUP)
    browser.js("[...document.querySelectorAll('td details')].at(-1).open = true")
    shows(browser, f"{MARKUP} is harmless")
    is_harmless(browser)
    id = app.client.get("/v1/safety/false_positives", headers=bearer(KEY)).json()["data"][0]["id"]
    press(browser, f"Remove the report {id}")
    answer(browser, "Remove")
    shows(browser, "The report is removed.")
    assert app.client.get("/v1/safety/false_positives", headers=bearer(KEY)).json()["data"] == []
    assert ("false_positives.remove", id) in audited(app)


# --- cache ------------------------------------------------------------------------------------------------------------


def test_hits_saved_cost_and_entries_are_shown_and_a_tenant_is_purged(app: TestApp, browser: Browser) -> None:
    say(app, "kept for the cache")
    say(app, "kept for the cache")
    enter(browser, app, "cache")
    shows(browser, "exact hits")
    shows(browser, MARKUP)
    is_harmless(browser)
    [saved] = app.client.get("/admin/cache/entries", headers=bearer(KEY)).json()["saved"]
    shows(browser, f"{saved['cost']:.4f}"[:5])
    press(browser, f"Purge the entries of {MARKUP}")
    answer(browser, "Cancel")
    held = app.client.get("/admin/cache/entries", headers=bearer(KEY)).json()["caches"]["memory"]
    assert MARKUP in {one["tenant"] for one in held}
    press(browser, f"Purge the entries of {MARKUP}")
    answer(browser, "Purge")
    shows(browser, 'of "memory" removed')
    assert ("cache.purge", MARKUP) in audited(app)
    held = app.client.get("/admin/cache/entries", headers=bearer(KEY)).json()["caches"]["memory"]
    assert MARKUP not in {one["tenant"] for one in held}


def test_a_purge_by_tag_withdraws_that_tag_alone(app: TestApp, browser: Browser) -> None:
    say(app, "with a tag", sluicegate={"cache": {"tags": [SHORT]}})
    say(app, "without a tag")
    enter(browser, app, "cache")
    fill(browser, "purge-tenant", MARKUP)
    choose(browser, "purge-kind", "tag")
    fill(browser, "purge-name", SHORT)
    press(browser, "Purge …")
    shows(browser, f'those with the tag "{SHORT}" of tenant "{MARKUP}"')
    answer(browser, "Purge")
    shows(browser, '1 entry of "memory" removed')
    is_harmless(browser)


# --- who may ----------------------------------------------------------------------------------------------------------


def test_a_callers_key_opens_none_of_it(app: TestApp) -> None:
    reads = ("keys", "teams", "rails", "rails/history", "cache/entries", "evaluations", "usage")
    for path in reads:
        for key, status in (("secret-a", 403), ("wrong", 401)):
            told = httpx.get(f"{app.url}/admin/{path}", headers=bearer(key))
            assert told.status_code == status, path


def test_a_key_that_ends_while_a_page_is_open_is_told_and_nothing_written_is_lost(
    app: TestApp, browser: Browser
) -> None:
    made = app.client.post("/admin/keys", json={"id": "guest", "scopes": ["admin"]}, headers=bearer(KEY)).json()
    enter(browser, app, "keys")
    browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(made['key'])})")
    browser.go("about:blank")
    browser.go(f"{app.url}/console#/keys")
    browser.until("document.getElementById('pulse').className === 'pulse on'")
    fill(browser, "new-id", MARKUP)
    assert app.client.delete("/admin/keys/guest", headers=bearer(KEY)).status_code == 200
    browser.until("document.querySelector('#main > [role=alert]')")
    shows(browser, "What you see is no longer up to date")
    assert browser.js("document.getElementById('pulse').className") == "pulse off"
    assert browser.js("document.getElementById('new-id').value") == MARKUP
    press(browser, "Enter a key")
    browser.until("document.getElementById('key')")
    browser.js(f"document.getElementById('key').value = {json.dumps(KEY)}, document.querySelector('.gate form')")
    browser.js("document.querySelector('.gate form').requestSubmit()")
    browser.until("document.getElementById('pulse').className === 'pulse on' && document.getElementById('new-id')")
