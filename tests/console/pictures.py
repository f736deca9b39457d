"""Take the pictures of docs/images/console: every page in the light, in the dark and on a phone.

    python -m tests.console.pictures [FOLDER]

The gateway is made for them, so that every page has something to show.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from pathlib import Path

from tests.console.browser import Browser, chromium
from tests.console.whole import Names, Whole, enter, whole

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "images" / "console"
NAMES = Names(
    key="web-shop",
    tenant="kestrel-boatworks",
    team="checkout",
    feature="order-intake",
    policy="trial",
    label="competitor",
    text="Invoice TM-40917 of 14 March 2026 from Tidewater Marine Supply, 1,284.50 EUR, not paid.",
    suite="invoices",
    model="far",
    asked="gpt-9",
    route="pinned",
)
LOOKS = {"light": ("light", 1440, 1000), "dark": ("dark", 1440, 1000), "phone": ("light", 390, 844)}
TALLEST = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parsed = parser.parse_args()
    parsed.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with whole(folder, NAMES) as found, chromium(folder / "profile") as browser:
            take(found, browser, parsed.folder)
            browser.go("about:blank")


def take(found: Whole, browser: Browser, folder: Path) -> None:
    for place, address in found.places().items():
        name = place.replace("/", "-").translate(str.maketrans("", "", "{}"))
        enter(browser, found, address)
        prepared(browser, place)
        for look, (theme, width, height) in LOOKS.items():
            browser.size(width, height)
            browser.js(f"document.documentElement.dataset.theme = '{theme}'")
            browser.until(f"innerWidth === {width}")
            browser.until("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            (folder / f"{name}-{look}.png").write_bytes(picture(browser, width))


def prepared(browser: Browser, place: str) -> None:
    """Use a page that shows nothing until it is used."""
    if place == "rails":
        text = "Write to jane.doe@example.org, the walrus waits. My card is 4111 1111 1111 1111."
        browser.js(f"document.getElementById('try-text').value = {text!r}; true")
        browser.js("document.getElementById('try-text').form.requestSubmit(); true")
        browser.until("document.querySelector('mark')")
    if place == "playground":
        browser.js("document.querySelector('form').requestSubmit(); true")
        browser.until("document.querySelector('[role=status].note').textContent.includes('after')")


def picture(browser: Browser, width: int) -> bytes:
    """Return a PNG of the whole page. The window is made as tall: what sticks to its edge would end in the middle."""
    height = min(TALLEST, browser.js("document.documentElement.scrollHeight"))
    browser.size(width, height)
    browser.until(f"innerHeight === {height}")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = browser.call("Page.captureScreenshot", format="png", clip=clip)
    return base64.b64decode(taken["data"])


if __name__ == "__main__":
    main()
