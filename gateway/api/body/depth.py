"""Limit the nesting of a body when it is parsed: later code is recursive, and some of it cannot report an overflow."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from sluicegate.plugins import RequestError, place_of

MAX_DEPTH = 200
"""Objects and arrays inside each other. A server that we ask gets a body with a few levels more, which must stay below
the 254 that the writer of JSON can do; compiling a schema ends below this with an error of its own."""
MAX_VALUES = 100_000
"""Of JSON that stands inside a string: as many as whole bodies may have where no setting says otherwise."""
PIECE = 65_536
_SHOWN = 6


def check_depth(tree: Any, text: bytes | str | None = None, *, at: str = "") -> None:
    """Refuse a tree that nests too deeply: raises `RequestError` that names the place. `text` is what `tree` was read
    from; where it has few brackets, the tree is not walked. `at` is where in the body the tree stands."""
    if text is not None and not more_marks(text, "[{", MAX_DEPTH):
        return
    level: list[tuple[Any, tuple[Any, Any]]] = [(tree, ())]  # type: ignore[list-item]
    for _ in range(MAX_DEPTH):
        level = [(part, (path, name)) for node, path in level for name, part in _parts(node)]
        if not level:
            return
    where = place_of((*([at] if at else []), *_path(level[0][1])[:_SHOWN]))
    raise RequestError(
        f"`{where}` nests deeper than the {MAX_DEPTH} levels that are read; make it flatter",
        param=where,
        code="nested_too_deeply",
    )


def more_marks(text: bytes | str, marks: str, most: int) -> bool:
    """Return whether more than `most` of the characters of `text` are among `marks`. Counts piece by piece, no further
    than needed: one count over megabytes holds the interpreter for tens of milliseconds."""
    wanted = marks if isinstance(text, str) else marks.encode()
    if len(text) <= PIECE:
        return sum(map(text.count, wanted)) > most  # type: ignore[arg-type]
    counted = 0
    for at in range(0, len(text), PIECE):
        counted += sum(map(text[at : at + PIECE].count, wanted))  # type: ignore[arg-type]
        if counted > most:
            return True
    return False


def check_values_inside(text: str) -> str:
    """Return `text`, JSON inside a string, which `[server] max_values` does not count. Raises `ValueError` beyond a
    limit."""
    if more_marks(text, ",[{", MAX_VALUES):
        raise ValueError(f"JSON inside a string may have at most {MAX_VALUES} values; send less")
    return text


JsonText = Annotated[str, AfterValidator(check_values_inside)]


def _parts(node: Any) -> list[tuple[Any, Any]]:
    """Return (name, part) of the objects and arrays inside; nothing else has depth."""
    if type(node) is dict:
        return [(name, part) for name, part in node.items() if type(part) in (dict, list)]
    if type(node) is list:
        return [(place, part) for place, part in enumerate(node) if type(part) in (dict, list)]
    return []


def _path(linked: Any) -> list[str | int]:
    names: list[str | int] = []
    while linked:
        linked, name = linked
        names.append(name if isinstance(name, int) else name[:64])
    return names[::-1]
