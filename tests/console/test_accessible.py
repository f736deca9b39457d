"""Every page of the console at four widths, in both themes, for axe, and by keyboard: with a hostile name in each place
that takes one. A page is opened once for all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.console.axe import findings
from tests.console.browser import Browser
from tests.console.conftest import needs_chromium
from tests.console.operating import answer, press, shows
from tests.console.whole import HOSTILE, NEW, PLACES, Whole, enter, whole

pytestmark = needs_chromium
WIDTHS = (390, 768, 1180, 1440)
CLIPPED = """[...document.querySelectorAll('header *, #main *')].filter((node) => {
    if (node.closest('.hidden, svg') || !node.checkVisibility() || !node.getClientRects().length) return false;
    const { left, right } = node.getBoundingClientRect();
    const hides = node.clientWidth && getComputedStyle(node).overflowX !== 'visible';
    return left < -1 || right > innerWidth + 1 || (hides && node.scrollWidth > node.clientWidth + 1);
}).map((node) => node.outerHTML.slice(0, 160))"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
CONTROLS = """[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((node) => !node.disabled && node.tabIndex >= 0 && node.checkVisibility({ visibilityProperty: true }))"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with whole(tmp_path_factory.mktemp("whole"), HOSTILE) as found:
        yield found


@pytest.fixture(scope="module", params=PLACES)
def page(request: pytest.FixtureRequest, shown: Whole, browser: Browser) -> Iterator[Browser]:
    """Open a page, with all that can be unfolded unfolded."""
    enter(browser, shown, shown.places()[request.param])
    browser.js("document.querySelectorAll('details').forEach((found) => { found.open = true })")
    yield browser
    browser.size(1400, 1000)
    browser.go("about:blank")


def resize(browser: Browser, width: int) -> None:
    """Resize the window and wait until it is drawn: tables fit themselves to their new width then."""
    browser.size(width, 900)
    browser.until(f"innerWidth === {width}")
    for _ in range(2):
        browser.until(DRAWN)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_clipped_and_nothing_scrolls_sideways(page: Browser, width: int) -> None:
    resize(page, width)
    page.until(f"!({CLIPPED}).length", 60)  # tables are fitted once they are drawn
    assert page.js("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "theme"), [(1180, "light"), (390, "dark")])
def test_axe_finds_nothing(page: Browser, width: int, theme: str) -> None:
    resize(page, width)
    page.js(f"document.documentElement.dataset.theme = '{theme}'")
    found = []
    for _ in range(3):  # a page that looks for news draws its tables anew, which axe may meet before they are fitted
        page.until(f"!({CLIPPED}).length", 60)
        if not (found := findings(page)):
            break
    assert found == []


def test_the_keyboard_reaches_every_control(page: Browser) -> None:
    """By Tab alone, from the top; a field for a moment takes several, one for each of its parts."""
    page.size(1400, 1000)
    page.js(
        f"window.missed = new Set({CONTROLS}), addEventListener('focusin', (e) => missed.delete(e.target)),"
        "document.activeElement.blur(), document.querySelector('.skip').focus(), true"
    )
    steps = page.js(
        "missed.size + 8 * document.querySelectorAll('input[type=datetime-local], input[type=date]').length"
    )
    assert steps > 10
    for _ in range(steps):
        page.press("Tab")
    assert page.js("[...missed].filter((node) => node.isConnected).map((node) => node.outerHTML.slice(0, 160))") == []


def test_what_somebody_wrote_stays_text(page: Browser) -> None:
    assert page.js("window.pwned === undefined")
    assert page.js("document.querySelectorAll('#main img, #main script, #main b:not(.legend b)').length") == 0


@pytest.mark.parametrize("place", ["overview", "rails"])
def test_a_column_has_the_colour_that_its_legend_names(shown: Whole, browser: Browser, place: str) -> None:
    """By their words: what a part of a column is called stands in its title."""
    enter(browser, shown, place)
    browser.until("document.querySelector('.column span[class]:not(.none)')")
    named = """Object.fromEntries([...document.querySelectorAll('.legend span, .kinds > span')].map((one) => {
        const dot = one.querySelector('.kind'), style = getComputedStyle(dot ?? one);
        return [one.textContent.trim(), dot ? style.backgroundColor : style.color];
    }))"""
    colours = browser.js(named)
    parts = browser.js("""[...document.querySelectorAll('.panel:has(.legend, .kinds) .column')].flatMap((column) =>
        column.title.split(': ').at(-1).split(', ').map((said, at) => [said.replace(/ [\\d.]+$/, ''),
            column.children[at] && getComputedStyle(column.children[at]).backgroundColor])
    ).filter(([, found]) => found)""")
    known = [(said, found) for said, found in parts if said in colours]
    assert len({said for said, _ in known}) >= 3
    assert [said for said, found in known if colours[said] != found] == []
    browser.go("about:blank")


def test_fields_for_a_moment_show_all_of_it(shown: Whole, browser: Browser) -> None:
    """A date and a time to the second take 200 px."""
    enter(browser, shown, "overview")
    for width in WIDTHS:
        resize(browser, width)
        assert browser.js(
            "[...document.querySelectorAll('input[type=datetime-local]')].every((n) => n.clientWidth > 200)"
        )
    browser.size(1400, 1000)
    browser.go("about:blank")


def test_a_moment_of_another_day_is_told_with_its_day(shown: Whole, browser: Browser) -> None:
    """Whatever page says it: a time alone would be taken for today's."""
    enter(browser, shown, "reviews")
    browser.until("document.querySelector('dl.facts')")
    until_ = browser.js(
        "[...document.querySelectorAll('dt')].find((n) => n.textContent === 'kept until').nextSibling.textContent"
    )
    assert re.search(r"[A-Z][a-z]{2} \d", until_), until_
    told = browser.js(
        f"import('{shown.url}/console/dom.js').then((m) => [m.when(Date.now() / 1000), m.when(86400 * 10)])"
    )
    assert " " not in told[0]
    assert told[1].startswith("Jan 1")
    browser.go("about:blank")


def test_axe_finds_nothing_in_questions_menus_and_at_the_gate(shown: Whole, browser: Browser) -> None:
    enter(browser, shown, "models")
    press(browser, f"Stop: {NEW}")
    browser.until("document.querySelector('dialog[open]')")
    assert findings(browser) == []
    answer(browser, "Cancel")
    resize(browser, 390)
    browser.until(f"!({CLIPPED}).length", 60)
    browser.js("document.getElementById('menu').click()")
    assert findings(browser) == []
    browser.js("document.getElementById('forget').click()")
    browser.until("document.getElementById('key')")
    assert findings(browser) == []
    browser.size(1400, 1000)
    browser.go("about:blank")


def test_a_rollout_is_held_resumed_and_stopped_after_a_question(shown: Whole, browser: Browser) -> None:
    """Each order asks first, and is a line of the audit log under the name of who gave it."""

    def state() -> str:
        return str(shown.read("/admin/rollouts")["data"][0]["state"])

    enter(browser, shown, "models")
    for order, became in (("Hold", "held"), ("Resume", "running"), ("Stop", "stopped")):
        press(browser, f"{order}: {NEW}")
        answer(browser, "Cancel")
        assert state() != became
        press(browser, f"{order}: {NEW}")
        answer(browser, order)
        shows(browser, f"The rollout of {NEW}:")
        browser.until(f"[...document.querySelectorAll('#main .chip')].some((one) => one.textContent === '{became}')")
        assert state() == became
    browser.go("about:blank")
