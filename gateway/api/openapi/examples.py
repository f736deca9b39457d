"""Bodies that work as they stand with the bundled model, one for each dialect."""

from __future__ import annotations

from typing import Any

TEXT = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}
SAID: list[dict[str, Any]] = [{"role": "user", "content": TEXT}]
CHAT: dict[str, Any] = {
    "model": "bundled",
    "messages": SAID,
    "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
}
RESPONSE: dict[str, Any] = {
    "model": "bundled",
    "input": TEXT,
    "text": {"format": {"type": "json_schema", "name": "person", "schema": PERSON}},
}
MESSAGE: dict[str, Any] = {
    "model": "bundled",
    "max_tokens": 200,
    "messages": SAID,
    "output_config": {"format": {"type": "json_schema", "schema": PERSON}},
}
COMPLETION: dict[str, Any] = {
    "model": "bundled",
    "prompt": "Answer yes or no: ",
    "structured_outputs": {"regex": "yes|no"},
}
EMBEDDING: dict[str, Any] = {"model": "bundled", "input": ["one text", "another text"], "encoding_format": "float"}
