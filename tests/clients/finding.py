"""Which clients there are, and where each is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sluicegate.plugins import Job

ROOT = Path(__file__).parents[2]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
SCRIPTS = {
    "use_openai.py": "openai",
    "use_anthropic.py": "anthropic",
    "use_instructor.py": "instructor",
    "use_langchain.py": "langchain_openai",
    "use_pydantic_ai.py": "pydantic_ai",
    "use_litellm.py": "litellm",
}


def say(job: Job) -> list[str]:
    """A tool is called once; its result is put into words."""
    prompt = job.prompt.text
    text = "It is sunny in Oslo." if "<tool_response>" in prompt else CALL if "<tools>" in prompt else "Plainly said."
    return [text[i : i + 4] for i in range(0, len(text), 4)]


def find_python(module: str) -> str | None:
    """Return the first Python that has `module`."""
    named = os.environ.get("SLUICEGATE_CLIENTS_PYTHON")
    made = [str(folder / "bin" / "python") for folder in sorted(ROOT.glob(".venv-clients*"))]
    for python in (sys.executable, *([named] if named else []), *made):
        if Path(python).exists() and _imports(python, module):
            return python
    return None


def _imports(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], env=environ(), check=False).returncode == 0


def environ() -> dict[str, str]:
    """Without our own path, and without what would send a request elsewhere."""
    gone = ("PYTHONPATH", "OPENAI_", "ANTHROPIC_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {name: value for name, value in os.environ.items() if not name.startswith(gone)}
