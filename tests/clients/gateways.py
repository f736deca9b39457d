"""The gateways that clients are tried on: one with real models, one whose model says what a script tells it to."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job
from sluicegate.plugins.testing.doubles import FakeModel
from tests.engine.tiny_encoders import save_encoder
from tests.gateway.conftest import running

ROOT = Path(__file__).parents[2]


@contextmanager
def gateways() -> Iterator[dict[str, str]]:
    """Yield what `scripts/features.py` reads: where each gateway is."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        real = stack.enter_context(running(_real(folder)))
        tools = stack.enter_context(running(_with_tools()))
        made = TestApp(script=say, settings={"batches": {"path": f"{folder}/b"}})
        made.model._models = {"scripted": FakeModel("scripted", context_length=100_000)}  # frameworks have long prompts
        scripted = stack.enter_context(made)
        yield {"real": real.url, "scripted": scripted.url, "mcp": tools.url, "root": str(ROOT)}


def _real(folder: Path) -> dict[str, Any]:
    models = {
        "tiny-embedder": {"path": str(save_encoder(folder / "embedder", "bert"))},
        "tiny-reranker": {"path": str(save_encoder(folder / "reranker", "xlm-roberta", scores=True))},
    }
    stages = {"generate": {"encoders": {"models": models, "threads": 1}}}
    return {"pipeline": {"generate": ["engine", "encoders"]}, "stages": stages}


def _with_tools() -> dict[str, Any]:
    notes = [sys.executable, str(ROOT / "examples" / "mcp" / "notes_server.py")]
    table = {"own_tools": True, "servers": {"notes": {"command": notes}}}
    return {"pipeline": {"screen": ["secrets", "injection"]}, "mcp": table}


def say(job: Job) -> list[str]:
    """Call the first tool once, put its result into words, and hand these to the tool that ends a run, if any."""
    prompt = job.prompt.text
    tools = _tools(prompt)
    text = "Plainly said."
    if "<tool_response>" in prompt or "sunny in Oslo" in prompt:  # smolagents sends results as texts
        text = "It is sunny in Oslo."
        text = _call("final_answer", {"answer": text}) if "final_answer" in tools else text
    elif tools:
        name, schema = next(iter(tools.items()))
        text = _call(name, dict.fromkeys(schema.get("properties", ()), "Oslo"))
    return [text[i : i + 4] for i in range(0, len(text), 4)]


def _tools(prompt: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of the tools that a prompt lists, by name."""
    listed = re.search(r"<tools>\n(.*?)\n</tools>", prompt, re.DOTALL)
    lines = [json.loads(line) for line in listed[1].splitlines() if line.strip()] if listed else []
    tools = [line.get("function", line) for line in lines]
    return {tool["name"]: tool.get("parameters") or {} for tool in tools}


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
