"""The clients that people use, with the versions of today: structured output, tools, streams and errors each.

Each script runs in the first Python that has its client: this one, those of `make clients` (`.venv-clients*`), or the
one that `SLUICEGATE_CLIENTS_PYTHON` names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job
from tests.gateway.conftest import RunningGateway, running

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
SCRIPTS = {
    "use_openai.py": "openai",
    "use_anthropic.py": "anthropic",
    "use_instructor.py": "instructor",
    "use_langchain.py": "langchain_openai",
    "use_pydantic_ai.py": "pydantic_ai",
    "use_litellm.py": "litellm",
}
LIMIT_S = 120


def say(job: Job) -> list[str]:
    """A tool is called once; its result is put into words."""
    prompt = job.prompt.text
    text = "It is sunny in Oslo." if "<tool_response>" in prompt else CALL if "<tools>" in prompt else "Plainly said."
    return [text[i : i + 4] for i in range(0, len(text), 4)]


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
    named = os.environ.get("SLUICEGATE_CLIENTS_PYTHON")
    made = [str(folder / "bin" / "python") for folder in sorted(ROOT.glob(".venv-clients*"))]
    for python in (sys.executable, *([named] if named else []), *made):
        if Path(python).exists() and _imports(python, module):
            return python
    pytest.skip(f"{module} is not installed; `make clients` installs the clients that are too heavy for `make test`")


def _imports(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], env=_environ(), check=False).returncode == 0


def _environ() -> dict[str, str]:
    """Without our own path, and without what would send a request elsewhere."""
    gone = ("PYTHONPATH", "OPENAI_", "ANTHROPIC_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {name: value for name, value in os.environ.items() if not name.startswith(gone)}


def run(command: list[str]) -> None:
    done = subprocess.run(command, env=_environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
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
