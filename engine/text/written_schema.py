"""Find a JSON Schema that stands written out in messages, for models that read a sketch of the schema.

Clients that serve every provider write the schema into a message, since not every server takes one in a field.

Not covered: schemas in any other notation than JSON, and texts of more than `MAX_CHARS` characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_CHARS = 65_536
"""Of a message; longer ones are documents."""
_MAX_BEGINNINGS = 32
_BEGINNING = re.compile(r'\{\s*"')
_DECODER = json.JSONDecoder()


def written_schema(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> dict[str, Any] | None:
    """Return the object schema that the messages (each `{"role", "content"}`) ask to fill; None where there is none, or
    where the chat template shows no sketch.

    System messages come before the last one, which may bring a document, and in a text the last schema: instructions
    show an example before it. What is returned has only texts that stand in the message as they are: what escapes
    spell, no rail has read.
    """
    if "schema_sketch" not in str(tokenizer.chat_template or ""):
        return None
    systems = [message for message in reversed(messages) if message["role"] in ("system", "developer")]
    for message in (*systems, *(message for message in messages[-1:] if message["role"] == "user")):
        if (found := _last_schema(message["content"])) is not None:
            return found
    return None


def _last_schema(text: str) -> dict[str, Any] | None:
    if '"properties"' not in text or len(text) > MAX_CHARS:
        return None
    found = None
    for written, value in _objects(text):
        if _is_schema(value):
            found = _as_written(value, written)
    return found


def _objects(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the outermost JSON objects of a text, each as it is written and read."""
    at = 0
    for _ in range(_MAX_BEGINNINGS):
        begins = _BEGINNING.search(text, at)
        if begins is None:
            return
        at = begins.end()
        try:
            value, end = _DECODER.raw_decode(text, begins.start())
        except (ValueError, RecursionError):
            continue
        yield text[begins.start() : end], value
        at = end


def _is_schema(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("properties"), dict) and value.get("type", "object") == "object"


def _as_written(value: Any, written: str) -> Any:
    """Return a copy without members whose name, or whose text, `written` spells by escapes."""
    if isinstance(value, dict):
        copied = {name: _as_written(item, written) for name, item in value.items() if name in written}
        return {name: item for name, item in copied.items() if item is not None}
    if isinstance(value, list):
        return [item for item in (_as_written(item, written) for item in value) if item is not None]
    return value if not isinstance(value, str) or value in written else None
