"""Report completed JSON values in a stream: an event names each by its JSON Pointer, with its value. An array is
reported when its first item begins, as an incomplete `[]`, so that a pointer is never ambiguous.

A client that sets each value at its pointer has, after every event, a part of the answer that will not change. It
satisfies the schema, except for requirements on a whole object or array, or on several values together
(`tests/reference/partial_schema.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.leaves import Leaf, LeafReader, Path, pointer_of
from sluicegate.plugins import Request

OF_JSON = ("json_schema", "json_object")


class PartialValues:
    """The JSON texts of one stream: answers under a schema, and arguments of functions."""

    def __init__(self, request: Request) -> None:
        constraint = request.constraint
        self._answers = constraint is not None and constraint.kind in OF_JSON
        self._custom = request.custom_tools
        self._readers: dict[tuple[int, str, int], LeafReader] = {}
        self._arrays: set[tuple[int, str, int, Path]] = set()

    @staticmethod
    def expected(request: Request) -> bool:
        """Return whether the answer may hold JSON values: it has a schema, or functions may be called."""
        constraint = request.constraint
        if constraint is not None and constraint.kind in OF_JSON:
            return True
        return any(not tool.custom for tool in request.callable_tools)

    def feed(self, delta: Delta) -> dict[str, Any] | None:
        """Return an event where values became complete."""
        place = delta.index, delta.channel, delta.call
        begins_call = delta.opened is not None and delta.opened.name not in self._custom
        if begins_call or (delta.channel == "content" and self._answers and place not in self._readers):
            self._readers[place] = LeafReader()
        reader = self._readers.get(place)
        if reader is None:
            return None
        ended = delta.finish_reason in ("stop", "tool_calls") and delta.refusal is None
        found = [said for leaf in reader.feed(delta.text, last=ended) for said in self._said(place, leaf)]
        where = {"index": delta.index} if delta.channel == "content" else {"index": delta.index, "call": delta.call}
        return {**where, "values": found} if found else None

    def _said(self, place: tuple[int, str, int], leaf: Leaf) -> Iterator[dict[str, Any]]:
        for size, step in enumerate(leaf.path):
            array = (*place, leaf.path[:size])
            if isinstance(step, int) and array not in self._arrays:
                self._arrays.add(array)
                yield {"pointer": pointer_of(leaf.path[:size]), "value": [], "complete": False}
        yield {"pointer": leaf.pointer, "value": orjson.Fragment(leaf.raw), "complete": True}
