"""The site: one command builds it whole, its pages of reference hold all that there is, and nothing is loaded from
elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.openapi.document import operations
from sluicegate.gateway.commands.cli import COMMANDS
from tests.console.browser import chromium
from tests.console.conftest import needs_chromium
from tools.site import commands_page, http_page, settings_page
from tools.site.hooks import COPIED, MADE, ROOT
from tools.site.links import moved


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "tools.site.build", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr  # a dead link and a page without a place are errors
    return folder


def test_every_document_is_a_page(built: Path) -> None:
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    expected = [path.with_suffix(".html") for path in sources] + [Path(page).with_suffix(".html") for page in MADE]
    places = [path.with_name("index.html") if path.name == "README.html" else path for path in expected]
    assert [str(path) for path in places if not (built / path).is_file()] == []


def test_a_browser_loads_nothing_from_elsewhere(built: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"|<link[^>]*\bhref="([^"]+)"')
    foreign = {
        address
        for page in built.rglob("*.html")
        for found in loaded.findall(page.read_text("utf-8"))
        for address in found
        if re.match(r"(?:https?:)?//", address)
    }
    assert foreign == set()


@needs_chromium
def test_a_reader_finds_a_page_by_its_words(built: Path, tmp_path: Path) -> None:
    """Served as files are: the index is made when the site is built, and the browser searches it."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *said: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(built)))
    Thread(target=server.serve_forever, daemon=True).start()
    asked = "document.querySelector('[data-md-component=search-query]')"
    with chromium(tmp_path) as browser:
        browser.go(f"http://127.0.0.1:{server.server_port}/index.html")
        browser.js(
            f"document.querySelector('#__search').click(), {asked}.focus(), {asked}.value = 'circuit breakers', "
            f"{asked}.dispatchEvent(new Event('input', {{ bubbles: true }})), "
            f"{asked}.dispatchEvent(new Event('keyup', {{ bubbles: true }})), true"
        )
        browser.until("document.querySelector('.md-search-result__link')")
        found = browser.js("[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)")
        assert any("breaker" in (built / urlsplit(link).path[1:]).read_text("utf-8") for link in found)
        assert browser.complaints() == []
    server.shutdown()


def test_every_operation_is_on_the_page_of_http() -> None:
    page = http_page.page()
    assert [key for key in operations(DIALECTS) if f"### {key[0].upper()} {key[1]}\n" not in page] == []


def test_every_operation_is_told_in_words_of_its_own() -> None:
    """Not by the name of a function, which is what FastAPI falls back to."""
    named = re.compile(r"(?:[A-Z][a-z]*)(?: [A-Z][a-z]*)*")
    found = http_page.document()
    told = {
        f"{method} {path}": operation["summary"]
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    }
    assert {place: words for place, words in told.items() if named.fullmatch(words)} == {}


def test_every_tag_is_explained() -> None:
    found = http_page.document()
    used = {operation["tags"][0] for methods in found["paths"].values() for operation in methods.values()}
    assert used <= {tag["name"] for tag in found["tags"]}


def test_every_stage_and_its_settings_are_on_the_page_of_settings() -> None:
    page = settings_page.page()
    for (slot, name), kinds in settings_page.stages().items():
        _, found, rest = page.partition(f"### `[stages.{slot}.{name}]`\n")
        assert found, f"{slot}/{name}"
        section = rest.split("\n### ")[0]
        for kind in kinds:
            assert [field.name for field in fields(kind) if f"| `{field.name}` |" not in section] == []


def test_no_setting_is_without_its_meaning_and_none_speaks_of_this_machine() -> None:
    rows = re.findall(r"^\| (`\w+`) \| .* \| (.*) \|$", page := settings_page.page(), re.MULTILINE)
    assert len(rows) > 500
    assert [name for name, meaning in rows if not meaning.strip()] == []
    assert str(settings_page.HERE) not in page
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    assert sorted(set(headings)) == sorted(headings), "a table that is told twice"


def test_a_setting_is_told_with_its_bounds_its_default_and_its_meaning() -> None:
    row = "| `port` | a whole number from 0 to 65535 | `8000` | 0 = a free one. |"
    assert row in settings_page.page()


def test_every_command_is_on_the_page_of_commands() -> None:
    page = commands_page.page()
    assert [name for name in COMMANDS if f"\n## sluicegate {name}\n" not in page] == []
    assert "### sluicegate keys create\n" in page


def test_links_that_leave_the_documents_lead_to_pages_or_are_words() -> None:
    text = "[a](../README.md#use-it) [b](../gateway/app.py) [c](engine.md) [d](https://example.org) `[e](f.md)`"
    assert moved(text, "docs/api.md", "api.md", COPIED).startswith("[a](index.md#use-it) b [c](engine.md) [d](https:")
    assert moved("[a](decisions)", "docs/api.md", "api.md", COPIED) == "[a](decisions/README.md)"
    block = "```md\n[a](../gateway/app.py)\n```\n"
    assert moved(block, "docs/api.md", "api.md", COPIED) == block
