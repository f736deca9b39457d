"""Follow a structured stream value by value; copy this file into your client.

asked = {"stream": True, "extra_body": {"sluicegate": {"partial": True}}}
for part in partial_values(client.chat.completions.create(..., **asked), Person.model_construct):
    show(part.value)  # whatever is there is whole: it will not change
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class Part(Generic[T]):
    """`call`: the number of a tool's call, None for the answer itself. `complete`: pointers that this event added."""

    index: int
    call: int | None
    complete: list[str]
    value: T


def partial_values(chunks: Iterable[Any], make: Callable[..., T] = dict) -> Iterator[Part[T]]:  # type: ignore[assignment]
    """Yield a part for each event. `make` is called with the properties of an object that are there."""
    documents: dict[tuple[int, int | None], Any] = {}
    for chunk in chunks:
        body = chunk if isinstance(chunk, dict) else chunk.model_dump()
        event = (body.get("sluicegate") or {}).get("partial")
        if event is None:
            continue
        place = event["index"], event.get("call")
        for said in event["values"]:
            documents[place] = put(documents.get(place), said["pointer"], said["value"])
        complete = [said["pointer"] for said in event["values"] if said["complete"]]
        document = documents[place]
        yield Part(*place, complete, make(**document) if isinstance(document, dict) else document)


def put(document: Any, pointer: str, value: Any) -> Any:
    """Set a value where an RFC 6901 pointer leads, and return the document. Arrays grow by one item at a time."""
    if not pointer:
        return value
    step, slash, rest = pointer[1:].partition("/")
    key = step.replace("~1", "/").replace("~0", "~")
    if isinstance(document, list):
        at = int(key)
        document[at : at + 1] = [put(document[at] if at < len(document) else None, slash + rest, value)]
        return document
    found = document if isinstance(document, dict) else {}
    found[key] = put(found.get(key), slash + rest, value)
    return found
