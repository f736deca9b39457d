"""How deep a body may nest, checked once at the door: what comes later recurses, and some of it cannot say so."""

from __future__ import annotations

from typing import Any

from plugins import RequestError

MAX_DEPTH = 200
"""Objects and arrays inside each other. A server that we ask gets a body with a few levels more, which must stay below
the 254 that the writer of JSON can do; compiling a schema ends below this with an error of its own."""
_SHOWN = 6


def check_depth(tree: Any, text: bytes | str | None = None, *, at: str = "") -> None:
    """`text`: what `tree` was read from; one that has few brackets needs no look at the tree. `at`: where in the body
    the tree stands. Raises `RequestError` that names the place."""
    if text is not None and _brackets(text) <= MAX_DEPTH:
        return
    level: list[tuple[Any, tuple[Any, Any]]] = [(tree, ())]  # type: ignore[list-item]
    for _ in range(MAX_DEPTH):
        level = [(part, (path, name)) for node, path in level for name, part in _parts(node)]
        if not level:
            return
    where = ".".join([*([at] if at else []), *_path(level[0][1])[:_SHOWN]])
    raise RequestError(
        f"`{where}` nests deeper than the {MAX_DEPTH} levels that are read; make it flatter",
        param=where,
        code="nested_too_deeply",
    )


def _brackets(text: bytes | str) -> int:
    if isinstance(text, str):
        return text.count("{") + text.count("[")
    return text.count(b"{") + text.count(b"[")


def _parts(node: Any) -> list[tuple[Any, Any]]:
    """Objects and arrays inside; what else there is has no depth."""
    if type(node) is dict:
        return [(name, part) for name, part in node.items() if type(part) in (dict, list)]
    if type(node) is list:
        return [(place, part) for place, part in enumerate(node) if type(part) in (dict, list)]
    return []


def _path(linked: Any) -> list[str]:
    names: list[str] = []
    while linked:
        linked, name = linked
        names.append(str(name)[:64])
    return names[::-1]
