"""What a script asks of its client, one feature at a time, each tried whatever became of the others.

    @feature("tools")
    def tools() -> None: ...

    run()

A feature that returns works. One declared with `refused="..."` has to raise, with these words in what the client shows:
what is asked for is not served. With `raises="..."` it has to raise as well, and works: an error reaches the caller in
words. `run` prints a line of JSON for each, and exits 1 where one did otherwise.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

GIVEN: dict[str, str] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
REAL = GIVEN.get("real", "")
"""A gateway with the bundled model, an embedder and a reranker of random weights."""
SCRIPTED = GIVEN.get("scripted", "")
"""A gateway whose model calls the tool it is given, once, and puts the result into words."""
MCP = GIVEN.get("mcp", "")
"""A gateway with the bundled model between agents and a server of notes."""
ROOT = GIVEN.get("root", "")
EMBEDDER, RERANKER = "tiny-embedder", "tiny-reranker"
QUESTION = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
SAID: list[Any] = [{"role": "user", "content": QUESTION}]
CLARA = {"name": "Clara Winther", "city": "Aarhus"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}
CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: dict[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
SUNNY = "It is sunny in Oslo."
PLAIN = "Plainly said."
_parts: list[tuple[str, str, str, Callable[[], Any]]] = []


def feature(name: str, *, refused: str = "", raises: str = "") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(part: Callable[[], Any]) -> Callable[[], Any]:
        _parts.append((name, refused, raises, part))
        return part

    return note


def run() -> None:
    rows = [_tried(*part) for part in _parts]
    for row in rows:
        print(json.dumps(row), flush=True)
    sys.exit(any(row["outcome"] == "fails" for row in rows))


def _tried(name: str, refused: str, raises: str, part: Callable[[], Any]) -> dict[str, str]:
    expected = refused or raises
    try:
        done = part()
        if inspect.isawaitable(done):
            asyncio.run(_awaited(done))
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        if expected and expected in words:
            return {"feature": name, "outcome": "refused" if refused else "works", "words": refused}
        traceback.print_exc()
        return {"feature": name, "outcome": "fails", "words": words[:300]}
    if expected:
        return {"feature": name, "outcome": "fails", "words": f"was answered, and {expected!r} was expected"}
    return {"feature": name, "outcome": "works", "words": ""}


async def _awaited(done: Any) -> None:
    await done
