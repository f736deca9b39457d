"""Parts of the example bodies of dialects, which work as they stand with the bundled model."""

from __future__ import annotations

from typing import Any

TEXT = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}
COUNTED: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": TEXT}]}
BATCHED: dict[str, Any] = {"requests": [{"custom_id": "first", "params": {**COUNTED, "max_tokens": 50}}]}
INPUT: dict[str, Any] = {"model": "bundled", "input": TEXT}
RANKED: dict[str, Any] = {"model": "a-cross-encoder", "query": "What is due?", "documents": ["one text", "another"]}
SCORED: dict[str, Any] = {"model": "a-cross-encoder", "text_1": "What is due?", "text_2": ["one text", "another"]}
GIVEN: dict[str, Any] = {"model": "bundled", "tokens": [1, 2, 3]}
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": TEXT}]
