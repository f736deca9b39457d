"""Read the input of a batch: one request a line, checked as a whole before anything runs."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate.plugins import RequestError, exact_json
from sluicegate.plugins.json_names import DuplicateName, check_once

MAX_LINES = 50_000
MAX_ID = 512


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1."""

    number: int
    custom_id: str
    body: dict[str, Any]


class BadLine(RequestError):
    """The file cannot be run; `line` says where."""

    code = "invalid_batch_file"

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}", param="input_file_id")
        self.line = line


def check_lines(path: Path, endpoint: str) -> int:
    """Return how many lines there are. Raises `BadLine`; bodies are read only when they are run."""
    seen: set[str] = set()
    for line in lines_of(path, endpoint):
        if line.custom_id in seen:
            raise BadLine(line.number, f"`custom_id` {line.custom_id!r} was used before")
        seen.add(line.custom_id)
        if len(seen) > MAX_LINES:
            raise BadLine(line.number, f"a batch has at most {MAX_LINES} requests; make several")
    if not seen:
        raise BadLine(1, "the file has no requests")
    return len(seen)


def lines_of(path: Path, endpoint: str) -> Iterator[Line]:
    """Yield the lines that are not blank; blank ones are counted. Raises `BadLine`."""
    with path.open("rb") as opened:
        for number, raw in enumerate(opened, 1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if raw.strip():
                yield _line(number, raw, endpoint)


def _line(number: int, raw: bytes, endpoint: str) -> Line:
    try:
        tree = exact_json.read(raw, lambda rounded: check_once(rounded, raw))
    except DuplicateName as error:
        raise BadLine(number, str(error)) from error
    except ValueError as error:
        raise BadLine(number, _unreadable(raw, error)) from error
    except RecursionError as error:
        raise BadLine(number, "it nests too deeply; make it flatter") from error
    if not isinstance(tree, dict):
        raise BadLine(number, f"must be a JSON object, found {type(tree).__name__}")
    custom_id, body = tree.get("custom_id"), tree.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_ID:
        raise BadLine(number, f"`custom_id` must be a text of up to {MAX_ID} characters, different for each line")
    if tree.get("method", "POST") != "POST":
        raise BadLine(number, f"`method` must be POST, found {_shown(tree['method'])}")
    if tree.get("url", endpoint) != endpoint:
        raise BadLine(number, f"`url` must be the batch's endpoint {endpoint!r}, found {_shown(tree['url'])}")
    if not isinstance(body, dict):
        raise BadLine(number, "`body` must be a JSON object")
    return Line(number, custom_id, body)


def _unreadable(raw: bytes, error: ValueError) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 at byte {wrong.start + 1} of the line; save the file as UTF-8"
    return f"not JSON: {error}"


def _shown(value: object) -> str:
    return repr(value)[:100]
