"""Read bodies within the bounds on values and messages, large ones in a thread.

    parsed = await reader.parse(request, parse_chat)

A JSON parser holds the GIL until it has read the last value, and makes an object of each: bytes alone bound neither. So
values are counted first, without making any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from starlette.requests import ClientDisconnect, Request

from sluicegate.gateway.api.body.depth import MAX_DEPTH, more_marks
from sluicegate.gateway.api.body.parsing import P, Parse, read_json
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.disconnects import unless_disconnected
from sluicegate.gateway.settings import ServerSettings
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import Caller, RequestError, RequestTooLarge

T = TypeVar("T")
LARGE = 32_768
"""Bytes of a body from which on it is read in a thread: no more than that is parsed in a few milliseconds."""
CHUNK = 262_144
LISTS = {"messages": "max_messages", "input": "max_messages", "prompt": "max_messages", "tools": "max_tools"}
"""Top-level lists of the dialects, and the settings that bound them."""


class Reader:
    """Reads the bodies of one gateway within its bounds. Immutable."""

    def __init__(self, bounds: ServerSettings, workers: Workers, identify: Callable[[str | None], Caller]) -> None:
        self._workers = workers
        self._identify = identify
        self._bounds = bounds
        self.max_values = bounds.max_values
        self._surely = 2 * min(bounds.max_messages, bounds.max_parts, bounds.max_tools)
        """Bytes in which no list has too many entries: each takes two."""

    async def parse(self, request: Request, parse: Parse[P]) -> P:
        """Run `parse`, in a thread where the body is large. Raises `RequestError`; `ClientDisconnected` where the
        client left while it waited for the thread."""
        body, key = await body_of(request), api_key_of(request)
        if len(body) <= LARGE:
            return parse(self.tree(body), key)
        return await self._in_a_thread(request, body, key, lambda tree: parse(tree, key).sized(len(body)))

    async def read(self, request: Request, read: Callable[[dict[str, Any]], T]) -> T:
        """Run `read` on a body as JSON values, in a thread where it is large. Raises as `parse` does."""
        body, key = await body_of(request), api_key_of(request)
        if len(body) <= LARGE:
            return read(self.tree(body))
        return await self._in_a_thread(request, body, key, read)

    async def tree_of(self, request: Request, body: bytes) -> dict[str, Any]:
        """Return `body`, which was received, as JSON values, read in a thread where it is large. Raises as `parse`
        does."""
        if len(body) <= LARGE:
            return self.tree(body)
        return await self._in_a_thread(request, body, api_key_of(request), lambda tree: tree)

    async def _in_a_thread(
        self, request: Request, body: bytes, key: str | None, read: Callable[[dict[str, Any]], T]
    ) -> T:
        tenant = self._identify(key).tenant  # nobody without a key has a large body read
        work = self._workers.run(tenant, len(body), lambda: read(self.tree(body)))
        return await unless_disconnected(request.scope, request.receive, work)

    async def parse_text(self, text: str, tenant: str, parse: Parse[P], key: str | None) -> P:
        """Run `parse` on a message of a WebSocket."""
        body = text.encode("utf-8", "surrogatepass")
        return await self._workers.run(tenant, len(body), self._parsed, body, parse, key, inline_bytes=LARGE)

    def tree(self, body: bytes) -> dict[str, Any]:
        """Read a body as a JSON object. Raises `RequestError` for what is none, or has more of something than the
        settings allow."""
        check_values(body, self._bounds.max_values)
        found = read_json(body)
        if len(body) > self._surely:
            self.check(found)
        return found

    def check(self, tree: Mapping[str, Any]) -> None:
        """Refuse lists that are longer than the settings allow: raises `RequestError`."""
        for name, setting in LISTS.items():
            found = tree.get(name)
            if isinstance(found, list):
                self._check_list(name, found, setting)

    def _check_list(self, name: str, found: list[Any], setting: str) -> None:
        most = getattr(self._bounds, setting)
        if len(found) > most:
            raise _too_many(f"`{name}` has {len(found)} entries", most, setting, name)
        parts = sum([len(one["content"]) for one in found if type(one) is dict and type(one.get("content")) is list])
        if parts > self._bounds.max_parts:
            raise _too_many(f"`{name}` have {parts} content parts", self._bounds.max_parts, "max_parts", name)

    def _parsed(self, body: bytes, parse: Parse[P], key: str | None) -> P:
        return parse(self.tree(body), key).sized(len(body))


async def body_of(request: Request) -> bytes:
    """Read the body, once, as `request.body()` does, which makes a generator for it. Raises `ClientDisconnect`."""
    parts, more = [], True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_values(body: bytes, most: int) -> None:
    """Refuse a body with more than `most` values, counted as commas and brackets outside strings: raises
    `RequestError`."""
    if len(body) <= most or not more_marks(body, ",[{", most):
        return
    if count_values(body, most) > most:
        _check_brackets(body)
        raise _too_many(f"the body has more than {most} values", most, "max_values", None)


def _check_brackets(body: bytes) -> None:
    """Refuse what nests too deeply, before it is refused as too long: raises `RequestError`. Depth is wrong whatever
    the bounds of the gateway are, and no parser need see it."""
    inside, depth, at = False, 0, 0
    while at < len(body):
        piece, at, was = *_piece_at(body, at), at
        outside, inside = _outside(piece, inside)
        steps = (outside == 0x5B).astype(np.int64) + (outside == 0x7B) - (outside == 0x5D) - (outside == 0x7D)
        levels = steps.cumsum() + depth
        if len(levels) and levels.max() > MAX_DEPTH:
            raise RequestError(
                f"the body nests deeper than the {MAX_DEPTH} levels that are read, between bytes {was} and {at}; make "
                "it flatter",
                code="nested_too_deeply",
            )
        depth = int(levels[-1]) if len(levels) else depth


def _piece_at(body: bytes, at: int) -> tuple[bytes, int]:
    """Return the next piece to look at, and where the one after it begins."""
    piece = body[at : at + CHUNK]
    if len(piece) == CHUNK and (CHUNK - len(piece.rstrip(b"\\"))) % 2:
        piece = piece[:-1]  # what escapes and what is escaped stay together
    return piece, at + len(piece)


def count_values(body: bytes, most: int) -> int:
    """Count commas and opening brackets outside strings; stops soon after `most`."""
    inside, counted, at = False, 0, 0
    while at < len(body) and counted <= most:
        piece, at = _piece_at(body, at)
        outside, inside = _outside(piece, inside)
        counted += sum(int(np.count_nonzero(outside == mark)) for mark in b",[{")
    return counted


def _outside(piece: bytes, inside: bool) -> tuple[Any, bool]:
    """Return (the bytes of `piece` outside strings, uint8 [n]; whether it ends inside of one)."""
    if b"\\" in piece:
        piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    read = np.frombuffer(piece, np.uint8)
    quotes = (read == 0x22).cumsum(dtype=np.int64) + inside
    return read[(quotes & 1) == 0], bool(quotes[-1] & 1)


def _too_many(found: str, most: int, setting: str, param: str | None) -> RequestError:
    return RequestTooLarge(f"{found}; this gateway reads at most {most} ([server] {setting}): send less", param=param)
