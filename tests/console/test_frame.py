"""The frame around every page of the console: its sections, on a phone, in both themes, by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sluicegate.gateway.admin.console import STATIC
from tests.console.browser import Browser
from tests.console.conftest import enter, needs_chromium
from tests.gateway.conftest import RunningGateway

SECTIONS = re.findall(r'name: "(\w+)", title: "[^"]+", group:', (STATIC / "sections.js").read_text("utf-8"))
CLIPPED = """[...document.querySelectorAll('header *, #main *')].filter(n => !n.closest('.scroll, .hidden, svg') &&
    n.getClientRects().length && n.getBoundingClientRect().right > innerWidth + 1)
    .map(n => n.outerHTML.slice(0, 120))"""


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    browser.size(390, 844)
    yield browser
    browser.size(1400, 1000)


@needs_chromium
def test_every_section_is_in_the_navigation_and_opens(gateway: RunningGateway, browser: Browser) -> None:
    enter(gateway, browser)
    shown = browser.js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert shown == [f"#/{name}" for name in SECTIONS]
    for name in SECTIONS:
        browser.js(f"document.querySelector('nav a[href=\"#/{name}\"]').click()")
        browser.until(f"document.querySelector('nav a[aria-current=page]').getAttribute('href') === '#/{name}'")
        browser.until(
            "document.querySelector('#main h1') && !document.querySelector('#main [role=alert]:not([hidden])')"
        )


@needs_chromium
def test_a_large_screen_is_used(gateway: RunningGateway, phone: Browser) -> None:
    """Names and paths in tables wrapped beside a third of the screen that was empty."""
    phone.size(2000, 1000)
    enter(gateway, phone, "requests")
    assert phone.js("document.querySelector('#main').getBoundingClientRect().right") > 1900


@needs_chromium
def test_the_sections_open_from_a_button_on_a_phone_and_close_with_escape(
    gateway: RunningGateway, phone: Browser
) -> None:
    enter(gateway, phone)
    visible = "document.querySelector('nav a').getClientRects().length > 0"
    assert not phone.js(visible)
    phone.js("document.getElementById('menu').focus()")
    phone.press("Enter")
    phone.until(visible)
    assert phone.js("document.getElementById('theme').getBoundingClientRect().right <= innerWidth")
    assert phone.js("document.getElementById('forget').getBoundingClientRect().right <= innerWidth")
    assert phone.js(CLIPPED) == []
    phone.press("Escape")
    assert not phone.js(visible)
    assert phone.js("document.activeElement.id") == "menu"
    phone.press("Enter")
    phone.js("document.querySelector('nav a[href=\"#/models\"]').click()")
    phone.until("document.querySelector('h1').textContent === 'Models'")
    assert not phone.js(visible)


@needs_chromium
def test_the_theme_follows_the_system_until_somebody_chooses(gateway: RunningGateway, browser: Browser) -> None:
    """Also while the page is open, and the choice outlives a reload."""

    def is_dark() -> bool:
        return bool(browser.js("getComputedStyle(document.body).backgroundColor === 'rgb(13, 20, 22)'"))

    def system(scheme: str) -> None:
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    enter(gateway, browser)
    browser.js("localStorage.removeItem('sluicegate.theme'), delete document.documentElement.dataset.theme")
    enter(gateway, browser)
    for scheme in ("dark", "light"):
        system(scheme)
        assert is_dark() is (scheme == "dark")
    for _ in range(2):
        browser.js("document.getElementById('theme').click()")
    enter(gateway, browser)
    assert is_dark()
    browser.js("document.getElementById('theme').click()")
    assert not is_dark()
    system("")


@needs_chromium
@pytest.mark.parametrize("hash", ["#/nothing", "#/trace/%", "#/requests?%", "#//", "#/trace/<img src=x>"])
def test_an_address_that_names_nothing_still_shows_a_page(gateway: RunningGateway, browser: Browser, hash: str) -> None:
    enter(gateway, browser)
    browser.js(f"location.hash = {hash!r}")
    browser.until("document.querySelector('nav a[aria-current=page]') && document.querySelector('#main h1')")
    assert browser.js("document.querySelectorAll('#main img').length") == 0
