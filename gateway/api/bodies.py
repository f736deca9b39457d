"""Reading a request's body: bytes to a checked model, with errors that name the field by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from gateway.api.heeding import refuse_strangers
from plugins import Request, RequestError
from plugins.facts import quick

M = TypeVar("M", bound=BaseModel)


@quick
@dataclass(frozen=True, slots=True)
class Parsed:
    """A `Request`, and what only the wire needs to know of it."""

    request: Request
    explain: bool = False
    include_usage: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    """What this dialect calls parameters that complaints name in chat's words."""
    ignored: tuple[str, ...] = ()
    """Paths of what nobody here heeds; said in the answer, since clients send ever new ones."""


@contextmanager
def in_words_of(parsed: Parsed) -> Iterator[None]:
    """Complaints from inside name the parameter as the caller wrote it."""
    try:
        yield
    except RequestError as error:
        here = parsed.names.get(error.param or "")
        if here is not None:
            error.message = error.message.replace(f"`{error.param}`", f"`{here}`")
            error.param = here
        raise


def read_json(body: bytes) -> dict[str, Any]:
    """Raises `RequestError` where the body is no JSON object."""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(tree, dict):
        raise RequestError(f"the body must be a JSON object, found {type(tree).__name__}", code="invalid_json")
    return tree


def read_body(body: bytes | Mapping[str, Any], kind: type[M], unsupported: Mapping[str, str]) -> M:
    """`unsupported`: fields that change what an answer means and have no effect here: refused, never ignored."""
    tree = read_json(body) if isinstance(body, bytes) else body
    for name, reason in unsupported.items():
        if tree.get(name):
            raise RequestError(f"`{name}`: {reason}", param=name, code="unsupported_parameter")
    refuse_strangers(tree, kind)
    return checked(kind, tree)


def checked(kind: type[M], tree: Any) -> M:
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise first_complaint(error) from error


def first_complaint(error: ValidationError) -> RequestError:
    """Where several shapes are possible, what is wrong with the one that was nearest."""
    found = error.errors(include_url=False, include_context=False)
    first = max(found, key=lambda one: (len(one["loc"]), not one["type"].endswith("_type")))
    path = ".".join(str(part) for part in first["loc"] if not _is_branch(part))
    return RequestError(f"`{path}`: {first['msg']}", param=path or None, code="invalid_parameter")


def _is_branch(part: int | str) -> bool:
    """Pydantic's own name for one shape of several, which no caller wrote."""
    return isinstance(part, str) and (part in ("str", "constrained-str") or "[" in part or part[:1].isupper())
