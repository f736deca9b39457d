"""The texts of a request that a model or another server may come to read, each with its place; derived from the types.

A field whose type can hold text is read unless `NEVER_READ` names it, so a field that nobody thought of is screened.
`KINDS` says what the texts of a field are; without an entry they are `fixed`.

    message, arguments, document, prose      may be replaced where they stand
    fixed                                    names, ids, keys, values, patterns: another text there would mean another
                                             thing, so what a rail wants replaced is refused instead

Not covered: a text spread over two places, and what a regular expression or a grammar can produce but does not spell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from sluicegate.plugins.contract.names import Role
from sluicegate.plugins.contract.requests import (
    Constraint,
    Document,
    Message,
    Parts,
    Request,
    Tool,
    ToolCall,
)
from sluicegate.plugins.json_names import Path, Step, place_of
from sluicegate.plugins.json_schema import KEYWORDS, named

Kind = Literal["message", "arguments", "document", "prose", "fixed"]
NEVER_READ: Mapping[type, frozenset[str]] = {
    Request: frozenset(("id", "model", "user", "api_key", "on_behalf_of", "metadata", "reuse")),
    Parts: frozenset(("template", "version")),
}
"""Fields with text that reaches neither a prompt nor another server, as a test proves."""
KINDS: Mapping[type, Mapping[str, Kind]] = {
    Message: {"content": "message"},
    ToolCall: {"arguments": "arguments"},
    Tool: {"description": "prose"},
    Parts: {"variables": "prose"},
    Document: {"text": "document", "source": "document"},
}
SCHEMAS = ((Tool, "parameters"), (Constraint, "value"))
"""Fields that may hold a JSON Schema, whose keywords are not the caller's text."""
PROSE = named(lambda row: row.role == "annotation" and row.kind == "any" and row.form in ("text", "value", "values"))
"""Annotation keywords, whose strings are prose."""
MAX_DEPTH = 256
"""Longest path; values deeper than this are refused by the parser, and count as unreadable here."""
MAX_VALUES = 100_000
"""Most JSON values inside a string."""
DIGITS = 100_000
"""Numbers from here on, among a schema's values, are read as texts: an account number is one."""


class Text(NamedTuple):
    """`path` is unique in a request and quotes nothing of the caller's. `role`: of the message it belongs to."""

    path: Path
    text: str
    kind: Kind = "fixed"
    role: Role | None = None

    @property
    def place(self) -> str:
        """Return the path in the words of the API: `tools[0].parameters.properties[2].description`."""
        return place_of(self.path)

    @property
    def is_free(self) -> bool:
        """Return whether the text may be replaced; False for `fixed`."""
        return self.kind != "fixed"


def with_places(text: str, spell: Callable[[Path], str]) -> str:
    """Return `text`, a sentence of ours or of a rail's, with every place as `spell` writes it."""
    return _places().sub(lambda found: spell(path_at(found[0])), text)


def path_at(place: str) -> Path:
    """Do the opposite of `place_of`, for the places that `with_places` finds."""
    return tuple(int(index) if index else name for index, name in _STEP.findall(place))


_STEP = re.compile(r"\[(\d+)\]|([\w$()-]+)")


@cache
def _places() -> re.Pattern[str]:
    """Return what finds the places of a request in a sentence: a field of it, and at least one step more."""
    roots = "|".join(name for name, _ in _plan(Request))
    return re.compile(rf"(?<![\w.])(?:{roots})(?:\[\d+\]|\.\(?[\w$-]+\)?)+")


def texts_of(request: Request) -> list[Text]:
    """Return every text of `request`, in order, without empty ones. Raises `ValueError` for what is nested beyond
    `MAX_DEPTH` or is no JSON."""
    found: list[Text] = []
    for i, message in enumerate(request.messages):
        _of_message(message, i, request, found)
    values_of, rest = _rest_of_a_request()
    for value, (name, read, unsaid) in zip(values_of(request), rest, strict=True):
        if value and value is not unsaid:  # defaults are shared objects, and hold no text
            read(value, (name,), found)
    return found


@cache
def _rest_of_a_request() -> tuple[Callable[[Request], tuple[Any, ...]], tuple[tuple[str, Read, Any], ...]]:
    """Return a getter of all request fields but the messages, and for each field its name, reader and default."""
    unsaid = {field.name: field.default for field in fields(Request)}
    rest = tuple((name, read, unsaid[name]) for name, read in _plan(Request) if name != "messages")
    return attrgetter(*(name for name, _, _ in rest)), rest


def _of_message(message: Message, i: int, request: Request, found: list[Text]) -> None:
    kind, role = _kind_of(request, i), message.role
    if message.content:
        found.append(Text(("messages", i, "content"), message.content, kind, role))
    if not any(_beside_content()(message)):  # as in most messages
        return
    for name, read in _plan(Message):
        if name != "content" and (value := getattr(message, name)):
            first = len(found)
            read(value, ("messages", i, name), found)
            found[first:] = [_inside(text, kind, role) for text in found[first:]]


@cache
def _beside_content() -> Callable[[Message], tuple[Any, ...]]:
    """Return a getter of all fields of a message, but `content`, that may hold text."""
    return attrgetter(*(name for name, _ in _plan(Message) if name != "content"))


def _inside(text: Text, kind: Kind, role: Role) -> Text:
    """Adjust a text by its message: a document's name counts as document; arguments get the role of the message that
    calls."""
    if kind == "document":
        return text._replace(kind=kind)
    return text._replace(role=role) if text.kind == "arguments" else text


def _kind_of(request: Request, i: int) -> Kind:
    """Return the kind of a message's text: while rails screen, documents are messages of their own, before the last
    one."""
    parts = request.parts
    if parts is None or not parts.expanded:
        return "message"
    last = len(request.messages) - 1
    return "document" if last - len(parts.documents) <= i < last else "message"


# --- what a type can hold --------------------------------------------------------------------------------------

Read = Callable[[Any, Path, list[Text]], None]
"""Appends the texts of a value at a path."""


@cache
def _plan(cls: type) -> tuple[tuple[str, Read], ...]:
    """Plan how to read each field of a dataclass that a model may come to read."""
    hints, never = get_type_hints(cls), NEVER_READ.get(cls, frozenset())
    kinds = KINDS.get(cls, {})
    return tuple(
        (field.name, _reader(cls, field.name, kinds.get(field.name, "fixed"), hints[field.name]))
        for field in fields(cls)
        if field.name not in never and holds_text(hints[field.name])
    )


def holds_text(hint: Any) -> bool:
    """Return whether a value of this type can hold text. An unknown type can."""
    if hint in (int, float, bool, NoneType) or get_origin(hint) is Literal:
        return False
    if isinstance(hint, type) and is_dataclass(hint):
        return bool(_plan(hint))
    if get_origin(hint) in (Union, UnionType, tuple, list, Mapping, dict, frozenset, set, Sequence):
        return any(holds_text(part) for part in get_args(hint) if part is not Ellipsis)
    return True


def _reader(cls: type, name: str, kind: Kind, hint: Any) -> Read:
    if kind == "arguments":
        return _arguments
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value, path, found: _facts(value, hint, path, found)
    mode: Mode = "schema" if (cls, name) in SCHEMAS else "data"
    return lambda value, path, found: _values(value, path, mode, kind, found)


def _facts(value: Any, hint: type, path: Path, found: list[Text]) -> None:
    """Read a dataclass of the contract; every request has some, and they rarely hold text."""
    if value.__class__ is not hint:
        _values(value, path, "data", "fixed", found)
        return
    for name, read in _plan(hint):
        if part := getattr(value, name):
            read(part, (*path, name), found)


def _arguments(value: str, path: Path, found: list[Text]) -> None:
    """Append arguments as written and, where they contain escapes, their decoded strings too, since templates parse
    them."""
    found.append(Text(path, value, "arguments"))
    if "\\" not in value:
        return
    if value.count(",") + value.count("[") + value.count("{") > MAX_VALUES:
        raise ValueError(f"`{place_of(path)}` has more than {MAX_VALUES} values, too many to be looked through")
    try:
        said = json.loads(value)
    except (ValueError, RecursionError):
        return
    _values(said, (*path, "(decoded)"), "data", "fixed", found)


# --- values ----------------------------------------------------------------------------------------------------

Mode = Literal["schema", "unknown", "names", "data"]
"""`unknown`: below a keyword that JSON Schema does not have, where there may be schemas or anything else."""
_NAMES = named(lambda keyword: keyword.form in ("table", "definitions", "lists of names"))
_DATA = named(lambda keyword: keyword.form in ("value", "values", "names", "dependencies"))
_KEYWORDS = KEYWORDS.keys() | {"strict"}
_BELOW: Mapping[Mode, Mode] = {"schema": "unknown", "unknown": "unknown", "names": "schema", "data": "data"}
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))


def _values(value: Any, path: Path, mode: Mode, kind: Kind, found: list[Text]) -> None:
    if value.__class__ is str:
        if value and not (mode == "schema" and value in _TYPES):
            found.append(Text(path, value, kind))
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int | float):
        if mode != "schema" and abs(value) >= DIGITS:
            found.append(Text(path, _digits(value), kind))
    elif len(path) > MAX_DEPTH:
        raise ValueError(f"`{place_of(path[:4])}` is nested deeper than {MAX_DEPTH}")
    elif isinstance(value, Mapping):
        _mapping(value, path, mode, kind, found)
    elif isinstance(value, Sequence | AbstractSet) and not isinstance(value, bytes | bytearray):
        ordered = value if isinstance(value, Sequence) else sorted(value)
        for i, part in enumerate(ordered):
            _values(part, (*path, i), mode, kind, found)
    elif is_dataclass(value) and not isinstance(value, type):
        for name, read in _plan(type(value)):
            if part := getattr(value, name):
                read(part, (*path, name), found)
    else:
        raise ValueError(f"`{place_of(path[:4])}` holds a {type(value).__name__}, which no rail can read")


def _mapping(value: Mapping[Any, Any], path: Path, mode: Mode, kind: Kind, found: list[Text]) -> None:
    for i, (key, part) in enumerate(value.items()):
        if mode in ("schema", "unknown") and key in _KEYWORDS:
            below: Mode = "names" if key in _NAMES else "data" if key in _DATA or key in PROSE else "schema"
            _values(part, (*path, key), below, "prose" if key in PROSE else "fixed", found)
            continue
        if key.__class__ is str and key:
            found.append(Text((*path, i, "(key)"), key))
        _values(part, (*path, i), _BELOW[mode], kind, found)


def _digits(number: float) -> str:
    """Return the decimal text of a number, without a trailing `.0`, so that account numbers given as floats are
    recognised."""
    return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


# --- other texts in their places ---------------------------------------------------------------------------------


def with_texts(request: Request, changes: Mapping[Path, str]) -> Request:
    """Return `request` with the texts at these paths replaced. A template variable is replaced in the rendered messages
    too. Raises `KeyError` for a path without a text, and `ValueError` for a text that must not change (`fixed`)."""
    known = {text.path: text for text in texts_of(request)}
    for path in changes:
        if not known[path].is_free:
            raise ValueError(f"`{place_of(path)}` must stay as it is")
    tree: dict[Step, Any] = {}
    for path, new in changes.items():
        at = tree
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = new
    changed: Request = _changed(request, tree)
    for path, new in changes.items():
        if path[:2] == ("parts", "variables"):
            changed = _in_messages(request, changed, known[path].text, new)
    return changed


def _changed(value: Any, tree: Any) -> Any:
    if isinstance(tree, str):
        return tree
    if isinstance(value, Mapping):
        return {
            k: _changed(v, t) if (t := _at(tree, i, k)) is not None else v for i, (k, v) in enumerate(value.items())
        }
    if isinstance(value, Sequence):
        made = [_changed(v, tree[i]) if i in tree else v for i, v in enumerate(value)]
        return tuple(made) if isinstance(value, tuple) else made
    return replace(value, **{name: _changed(getattr(value, name), below) for name, below in tree.items()})


def _at(tree: Mapping[Step, Any], i: int, key: Any) -> Any:
    return tree[key] if key in tree and isinstance(key, str) else tree.get(i)


def _in_messages(before: Request, after: Request, old: str, new: str) -> Request:
    """Replace a variable's value in the rendered messages. Raises `ValueError` where it is not found there, as when the
    template transformed it."""
    if not any(old in message.content for message in before.messages):
        raise ValueError("a variable of the template stands in no message as it was given, and cannot be replaced")
    messages = (replace(message, content=message.content.replace(old, new)) for message in after.messages)
    return replace(after, messages=tuple(messages))


def in_two(changes: Sequence[tuple[Text, str]], request: Request) -> tuple[tuple[Message, ...] | None, dict[Path, str]]:
    """Split new texts into the two fields of a `ScreenResult`: `messages` (None where no free text in a message
    changes), and `texts`, all others by path."""
    inside = {text.path: new for text, new in changes if text.is_free and text.role is not None}
    outside = {text.path: new for text, new in changes if text.path not in inside}
    return (with_texts(request, inside).messages if inside else None), outside


# --- for rails that know messages only ------------------------------------------------------------------------------


def beside_messages(request: Request) -> list[Text]:
    """Return the texts outside of message contents and call arguments, for rails that read only those."""
    return [text for text in texts_of(request) if text.role is None or text.kind == "fixed"]


def as_messages(request: Request, texts: Sequence[Text]) -> Request:
    """Return a request with one user message for each of `texts`, for rails that read only messages."""
    messages = tuple(Message("user", text.text) for text in texts)
    return replace(request, messages=messages, tools=(), constraint=None, parts=None)
