"""The clients that people use, with the versions of today: structured output, tools, streams and errors each.

Each script runs in the first Python that has its client: this one, those of `make clients` (`.venv-clients*`), or the
one that `SLUICEGATE_CLIENTS_PYTHON` names.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.gateway.testing import TestApp
from tests.clients.finding import SCRIPTS, environ, find_python, say
from tests.clients.matrix import features, outcomes
from tests.gateway.conftest import RunningGateway, running

HERE = Path(__file__).parent
LIMIT_S = 120


@pytest.fixture(scope="module")
def real() -> Iterator[RunningGateway]:
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def scripted() -> Iterator[TestApp]:
    with TestApp(script=say) as found:
        yield found


def python_with(module: str) -> str:
    """Skips the test where no Python has `module`."""
    python = find_python(module)
    if python is None:
        pytest.skip(
            f"{module} is not installed; `make clients` installs the clients that are too heavy for `make test`"
        )
    return python


def run(command: list[str]) -> None:
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("ok")


@pytest.mark.parametrize("script", SCRIPTS)
def test_client(real: RunningGateway, scripted: TestApp, script: str) -> None:
    python = python_with(SCRIPTS[script])
    run([python, str(HERE / "scripts" / script), real.url, scripted.url])


def test_openai_for_javascript(
    real: RunningGateway, scripted: TestApp, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Installed from npm into a folder of the test's own."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        pytest.skip("node and npm are not installed; on Debian: apt-get install nodejs npm")
    folder = tmp_path_factory.mktemp("npm")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "openai"]
    fetched = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"npm could not fetch openai: {fetched.stderr[-300:]}")
    script = shutil.copy(HERE / "scripts" / "use_openai.mjs", folder)
    run([node, str(script), real.url, scripted.url])


def test_the_matrix_says_which_part_failed_and_with_what_words() -> None:
    """By the first line of the script in the trace; what stands behind it was not tried."""
    script = "import x\n# parse\na()\n# tools\nb()\n# errors\nc()\n"
    trace = 'File "/tmp/use_x.py", line 5, in <module>\n  File "/lib/x.py", line 2\nNotFoundError: 404 | gone'
    assert features(script) == [(2, "parse"), (4, "tools"), (6, "errors")]
    assert outcomes(script, 0, "", "use_x.py") == [(name, "works") for name in ("parse", "tools", "errors")]
    found = outcomes(script, 1, trace, "use_x.py")
    assert found == [("parse", "works"), ("tools", "fails: NotFoundError: 404 / gone"), ("errors", "not tried")]
    [(_, broken), *_] = outcomes(script, 1, "", "use_x.py")
    assert broken == "fails: ended with status 1"
