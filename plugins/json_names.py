"""Name places in JSON values, and detect duplicate names in one object of a JSON text.

Of duplicates parsers silently keep the last or the first, so two parsers can read the same text differently.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

Step = str | int
Path = tuple[Step, ...]
PIECE = 65_536
COLON = b"\\u003"
"""Start of an escaped colon, which is then decoded."""


def place_of(path: Path) -> str:
    """Return a path as errors write it: `messages[0].content`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


class DuplicateName(ValueError):
    """`path`: of the name, `messages[0].content`; the name alone where it lies in what another double of it hides."""

    def __init__(self, path: str) -> None:
        super().__init__(f"`{path}` stands twice in one object; send it once")
        self.path = path


def check_once(tree: Any, text: bytes | bytearray | str) -> None:
    """Raise `DuplicateName` where an object of `text` has a name twice. `tree`: what `orjson` read it as. One of more
    levels than `orjson` writes (254) is not judged: its reader refuses it. `ValueError` where what a double hides is
    too deep to look at.

    Each name has one colon behind it, and all others lie in strings. So where the tree is written with as many colons,
    no name was dropped, and the text need not be read by a slower parser."""
    data = text.encode() if isinstance(text, str) else text
    try:
        written = orjson.dumps(tree)
    except TypeError:
        return
    if COLON not in data and _colons(data) == _colons(written):
        return
    doubled: list[tuple[dict[str, Any], str]] = []

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubled.append((found, _first_double(pairs)))
        return found

    try:
        again = json.loads(text, object_pairs_hook=read_object)
    except RecursionError as error:  # in what a double hides
        raise ValueError("a part of it nests too deeply; make it flatter") from error
    if doubled:
        outermost, name = doubled[-1]  # the reader ends with the objects that hold others
        raise DuplicateName(place_of((*_path_of(again, outermost), name[:64])))


def _colons(data: bytes | bytearray) -> int:
    """Count colons in pieces: one count over megabytes would hold the interpreter for tens of milliseconds."""
    if len(data) <= PIECE:
        return data.count(b":")
    return sum([data.count(b":", at, at + PIECE) for at in range(0, len(data), PIECE)])


def _first_double(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("all names are different")


def _path_of(tree: Any, wanted: Any) -> Path:
    """Return what leads to the very object `wanted`; nothing where it is not in `tree` any more."""
    waiting: list[tuple[Any, Path]] = [(tree, ())]
    while waiting:
        node, path = waiting.pop()
        if node is wanted:
            return path
        parts = node.items() if type(node) is dict else enumerate(node)
        steps = [(at if isinstance(at, int) else at[:64], part) for at, part in parts if type(part) in (dict, list)]
        waiting += [(part, (*path, at)) for at, part in steps]
    return ()
