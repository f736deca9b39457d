"""llm, the command."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from features import PLAIN, REAL, SCRIPTED, feature, run

FOLDER = Path(tempfile.mkdtemp())
(FOLDER / "extra-openai-models.yaml").write_text(
    f"- model_id: scripted\n  model_name: scripted\n  api_base: {SCRIPTED}/v1\n  supports_tools: true\n"
    f"- model_id: bundled\n  model_name: bundled\n  api_base: {REAL}/v1\n  supports_schema: true\n"
    f"- model_id: nope\n  model_name: nope\n  api_base: {REAL}/v1\n"
)


def llm(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("llm")), "prompt", "--key", "none", "--no-log", *arguments]
    environ = {**os.environ, "LLM_USER_PATH": str(FOLDER)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


@feature("plain, streamed")
def streamed() -> None:
    assert llm("-m", "scripted", "Say it.") == PLAIN


@feature("plain")
def plain() -> None:
    assert llm("-m", "scripted", "--no-stream", "Say it.") == PLAIN


@feature("schema")
def schema() -> None:
    assert '"name"' in llm("-m", "bundled", "--schema", "name, city", "My name is Clara.")


@feature("tools")
def tools() -> None:
    weather = "def get_weather(city: str) -> str:\n    return 'sunny'\n"
    assert llm("-m", "scripted", "--functions", weather, "The weather?") == "It is sunny in Oslo."


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    llm("-m", "nope", "x")


run()
