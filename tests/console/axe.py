"""axe-core, the usual judge of what screen readers and keyboards meet, from a package that brings it along."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.console.browser import Browser

PACKAGE = "axe_playwright_python"
"""Only its script is read: the browser is driven by `tests/console/browser.py`."""
LEAST_PASSED = 10
"""Rules that every page of ours gives something to judge."""
RUN = """axe.run(document, { resultTypes: ['violations'] }).then((found) => {
    const told = (node) => `${node.failureSummary} ${node.html}`;
    const violations = found.violations.map((rule) => [rule.id, ...rule.nodes.slice(0, 3).map(told)]);
    return { passed: found.passes.length, violations };
})"""


def script() -> str:
    """Skip where the package is not there; the extra `test` brings it."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{PACKAGE} is not installed")
    return (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")


def findings(browser: Browser) -> list[Any]:
    """Return what axe objects to on the page as it stands: [rule, element and what to do, ...]."""
    if not browser.js("'axe' in window"):
        browser.js(f"{script()}; true")
    found = browser.js(RUN)
    assert found["passed"] >= LEAST_PASSED, "axe judged next to nothing: is this a page?"
    return list(found["violations"])
