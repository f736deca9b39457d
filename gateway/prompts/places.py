"""Where callers wrote what errors name: from the places of a `Request` to those of the body that it was made of.

Every dialect has a map of its own. What it does not name stands in its bodies where it stands in a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sluicegate.plugins import Request, RequestError, place_of, with_places
from sluicegate.plugins.json_names import Path

DECODED = "(decoded)"
"""The step to what stands in JSON text; no caller has written it."""


class MessageOrigin(NamedTuple):
    """Where the parts of one message stood. `answers`: what says which call it is the result of."""

    content: Path
    calls: tuple[Path, ...] = ()
    answers: Path = ()


@dataclass(frozen=True, slots=True)
class BodyPlaces:
    """The map of a body without any map. `names`: parameters by the words of chat completions; `constraint`: what says
    how the answer looks, as one place."""

    names: Mapping[str, str] = field(default_factory=dict)
    constraint: str = ""

    def of(self, request: Request, path: Path) -> str:
        """Return where the caller of `request` wrote what stands at `path` of it."""
        root, rest = path[0], _written(path[1:])
        if root == "messages" and rest:
            return place_of(self.message(request, int(rest[0]), rest[1:]))
        if root == "tools" and rest:
            return place_of(self.tool(request, int(rest[0]), rest[1:]))
        if root == "constraint" and self.constraint and rest[:1] != ("options",):
            return self.constraint + _below(rest[1:] if rest[:1] == ("value",) else ())
        if root == "tool_choice":
            return self.parameter("tool_choice")
        if root == "sampling" and rest:
            return self.parameter(str(rest[0])) + _below(rest[1:])
        if path[:2] == ("parts", "documents") and len(rest) > 1:
            return place_of(self.document(int(rest[1]), rest[2:]))
        return place_of(_EXTENSION.get(path[:2], path[:2]) + rest[1:])

    def parameter(self, name: str) -> str:
        """Return the caller's name for a parameter that errors name as chat completions do."""
        if name == "structured_outputs" and self.constraint:
            return self.constraint
        return self.names.get(name, name)

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return ("messages", at, *rest)

    def tool(self, request: Request, at: int, rest: Path) -> Path:
        return ("tools", at, *rest)

    def document(self, at: int, rest: Path) -> Path:
        return ("sluicegate", "context", at, *rest)


_EXTENSION: Mapping[Path, Path] = {
    ("parts", "variables"): ("sluicegate", "variables"),
    ("parts", "template"): ("sluicegate", "template"),
    ("constraint", "options"): ("sluicegate", "grammar"),
}


def _written(path: Path) -> Path:
    return path[: path.index(DECODED)] if DECODED in path else path


def _below(path: Path) -> str:
    said = place_of(path)
    return said if said[:1] in ("", "[") else f".{said}"


def in_words_of(error: RequestError, places: BodyPlaces, request: Request) -> None:
    """Rename in `error` every parameter and place to what the caller of `request` wrote."""
    if (param := error.param) is not None:
        error.param = with_places(param, lambda path: places.of(request, path))
        if error.param == param and (here := places.parameter(param)) != param:
            error.message = error.message.replace(f"`{param}`", f"`{here}`")
            error.param = here
    error.message = with_places(error.message, lambda path: places.of(request, path))


def of_origins(origins: tuple[MessageOrigin, ...], at: int, rest: Path, call: Mapping[str, str]) -> Path:
    """Return the place of a part of a message whose parts stood at `origins`. `call`: fields of a call, by those of
    `ToolCall`."""
    if at >= len(origins):
        return ("messages", at, *rest)
    origin = origins[at]
    if rest[:1] == ("tool_calls",) and len(rest) > 1 and int(rest[1]) < len(origin.calls):
        return origin.calls[int(rest[1])] + tuple(call.get(str(step), step) for step in rest[2:3])
    return origin.answers or origin.content if rest[:1] == ("tool_call_id",) else origin.content


def as_sent(request: Request, path: Path) -> Path:
    """Return where the text at `path` of an expanded request stood before, ("parts", "template") for the template's
    own."""
    parts = request.parts
    if parts is None or not parts.expanded or path[0] != "messages":
        return path
    at, last, documents = int(path[1]), len(request.messages) - 1, len(parts.documents)
    if at < parts.before:
        return ("parts", "template")
    if last - documents <= at < last:
        return ("parts", "documents", at - last + documents, "source" if path[2:] == ("name",) else "text")
    return ("messages", at - parts.before - (documents if at == last else 0), *path[2:])
