"""Read tool definitions in the form that is pinned, and find errors and suspicious text in them.

Not covered: an innocent description of a tool that does something else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.mcp.orders import orders_in
from sluicegate.plugins.json_schema import KEYWORDS

FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Fields that are pinned and that agents get; all other fields of a server's definition are dropped."""
MAX_DEPTH = 64
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
    "|\r(?!\n)|\ufe0f{2}|[\u0300-\u036f]{4}"
)
"""Characters that a reviewer does not see and a model reads: invisible and private-use ones, a carriage return that
hides the text before it, and stacked variation selectors or accents."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool of a server. `content`: the fields of `FIELDS` that the server sent."""

    server: str
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.content["name"])

    @property
    def canonical(self) -> bytes:
        """Return the definition as JSON with sorted keys, so that equal definitions have equal bytes."""
        return json.dumps(self.content, sort_keys=True, separators=(",", ":")).encode()

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of `canonical`, hexadecimal."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self.content["inputSchema"]  # type: ignore[no-any-return]

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        return self.content.get("outputSchema")

    def texts(self) -> list[tuple[str, str]]:
        """Return (place, text) of every text that a model would read."""
        return list(_texts(self.content, ()))


def definition_of(server: str, wire: Mapping[str, Any]) -> ToolDefinition:
    return ToolDefinition(server, {name: wire[name] for name in FIELDS if wire.get(name) is not None})


def complaint(definition: ToolDefinition, max_bytes: int) -> str | None:
    """Return why a definition can never be served, even if approved; None if it can."""
    if not _NAME.fullmatch(definition.name):
        return "its name is not 1 to 64 of the characters A-Z, a-z, 0-9, _, . and -"
    if depth_of(definition.content) > MAX_DEPTH:
        return f"it nests deeper than {MAX_DEPTH} levels"
    size = len(definition.canonical)
    return f"it has {size} bytes, more than [mcp] max_definition_bytes ({max_bytes})" if size > max_bytes else None


def suspicions(definition: ToolDefinition, others: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield what an operator should review: hidden characters, instructions to the model, and mentions of other
    servers' tools. `others`: those tools by server."""
    texts = definition.texts()
    for place, text in texts:
        if found := _HIDDEN.search(text):
            yield f"hidden_characters: U+{ord(found[0]):04X} in {place}"
            break
    yield from orders_in(texts)
    prose = [(place, text) for place, text in texts if place not in ("name", "title")]
    for server, tools in others.items():
        if server == definition.server:
            continue
        for tool in tools:
            names = {f"{server}__{tool}", f"{server}/{tool}", f"{server}.{tool}"}
            if _is_telling(tool):
                names.add(tool)
            if (spoken := _mentioned(names, prose)) is not None:
                yield f"shadowing: {spoken} speaks of the tool {tool!r} of server {server!r}"


def _is_telling(name: str) -> bool:
    """Return whether a tool's name cannot be an ordinary word: `send_email`, `readFile`."""
    return len(name) > 3 and (re.search(r"[_.\d-]|[a-z][A-Z]", name) is not None)


def _mentioned(names: Iterable[str], texts: Iterable[tuple[str, str]]) -> str | None:
    pattern = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, sorted(names))) + r")(?![\w-])", re.IGNORECASE)
    return next((place for place, text in texts if pattern.search(text)), None)


def depth_of(value: Any) -> int:
    """Return the levels of nested lists and objects. Iterative, since the nesting is not bounded."""
    deepest, level = 0, [value]
    while level:
        inside: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inside += one.values()
            elif isinstance(one, list | tuple):
                inside += one
        level = inside
        deepest += 1 if level else 0
    return deepest


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    place = ".".join(path)
    if isinstance(value, str):
        if value:
            yield place, value
    elif isinstance(value, Mapping):
        for key, inside in value.items():
            if key not in KEYWORDS and path:
                yield f"{place} (key)", str(key)
            yield from _texts(inside, (*path, str(key) if key in KEYWORDS or not path else "*"))
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _texts(inside, path)
