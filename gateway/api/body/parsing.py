"""Read a request's body into a checked model, with errors that name the field by path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sluicegate.gateway.api.body.depth import check_depth
from sluicegate.gateway.api.body.nearest import Nearest
from sluicegate.gateway.api.body.unknown_fields import BodyFields, W, paths_of
from sluicegate.gateway.prompts.places import BodyPlaces, in_words_of
from sluicegate.plugins import Request, RequestError, exact_json, place_of
from sluicegate.plugins.frozen import frozen_when_checked
from sluicegate.plugins.json_names import DuplicateName, check_once

M = TypeVar("M", bound=BaseModel)
Tree = Mapping[str, Any]
"""A body as JSON values."""
AS_IN_A_REQUEST = BodyPlaces()
LONGEST_MODEL = 512


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Parsed:
    """A `Request`, and facts that only the HTTP layer needs."""

    request: Request
    explain: bool = False
    include_usage: bool = False
    places: BodyPlaces = AS_IN_A_REQUEST
    """Where the caller wrote what errors name."""
    ignored: tuple[str, ...] = ()
    """Paths of what has no use here; reported in the answer, since clients send ever new ones."""
    others: tuple[Request, ...] = ()
    """Requests for the further prompts of one body."""

    def at(self: P, number: int) -> P:
        """Return this for one of several prompts."""
        return replace(self, request=self.others[number - 1] if number else self.request)

    def sized(self: P, nbytes: int) -> P:
        """Return this with the size of its body in every request."""
        others = tuple(replace(other, nbytes=nbytes) for other in self.others)
        return replace(self, request=replace(self.request, nbytes=nbytes), others=others)


P = TypeVar("P", bound=Parsed)
Parse = Callable[[Tree, str | None], P]
"""(body, API key) -> what it asks for. Raises `RequestError` that names the field by path."""


class InWordsOf:
    """Rename parameters and places of a `RequestError` raised inside to what the caller wrote. No generator: it costs a
    request twice as much."""

    __slots__ = ("_parsed",)

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed

    def __enter__(self) -> None:
        """Prepare nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RequestError):
            in_words_of(error, self._parsed.places, self._parsed.request)


def read_json(body: bytes) -> dict[str, Any]:
    """Read a body as a JSON object. Raises `RequestError` where it is none, nests too deeply, or has a name twice."""
    try:
        tree = exact_json.read(body, lambda rounded: _check(rounded, body))
    except DuplicateName as error:
        raise RequestError(str(error), param=error.path, code="duplicate_name") from error
    except ValueError as error:
        raise RequestError(_unreadable(body, error), code="invalid_json") from error
    if not isinstance(tree, dict):
        raise RequestError(f"the body must be a JSON object, found {_shown(tree)}", code="invalid_json")
    return tree


def _check(rounded: Any, body: bytes) -> None:
    check_depth(rounded, body)
    check_once(rounded, body)


def _unreadable(body: bytes, error: ValueError) -> str:
    if not body.strip():
        return "the body is empty; send a JSON object"
    try:
        body.decode()
    except UnicodeDecodeError as broken:
        byte = f"byte 0x{body[broken.start]:02x} at position {broken.start}"
        return f"the body is not UTF-8 ({byte}); send JSON as UTF-8, not packed"
    return f"the body is not valid JSON: {error}{_advice(body, error)}"


_ADVICE = {
    "surrogate": "half of a character stands alone there, as where UTF-16 is cut; send whole characters",
    "byte order mark": "send it without",
    "infinity": "no number may be larger than 1.8e308",
}
"""What to do, by a word of the parser's error."""


def _advice(body: bytes, error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        for name in ("NaN", "Infinity"):
            if body.decode().startswith(name, error.pos):
                return f"; {name} is no number of JSON: send null, or leave the field out"
    return next((f"; {advice}" for word, advice in _ADVICE.items() if word in str(error)), "")


def read_body(body: bytes | Tree, fields: BodyFields[W]) -> tuple[W, tuple[str, ...]]:
    """Return the checked model, and the paths of what is not used. A body that is JSON already was read by `read_json`,
    or its depth was checked. Raises `RequestError` that names a field which would change the answer and has no effect
    here."""
    tree = read_json(body) if isinstance(body, bytes) else body
    _check_model(tree.get("model"))
    unknown = fields.unknown(tree)
    wire = checked(fields.kind, tree)
    return wire, fields.ignored(wire, unknown)


def _check_model(name: object) -> None:
    """Refuse a name that no model has: the console, the log and the books keep it, whoever sent it."""
    if isinstance(name, str) and len(name) > LONGEST_MODEL:
        raise RequestError(
            f"`model` has {len(name)} characters; a model's name has at most {LONGEST_MODEL}",
            param="model",
            code="invalid_parameter",
        )


def checked(kind: type[M], tree: Any) -> M:
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise first_complaint(error, kind, tree) from error


def first_complaint(error: ValidationError, body: type[BaseModel], tree: Any) -> RequestError:
    """Return the first validation error; where several shapes are possible, that of the nearest. `body` is the model
    that was expected, `tree` what was found."""
    found = error.errors(include_url=False)
    for one in found:
        one["loc"] = _without_kinds(one["loc"], tree)
    if kind := _kind_not_served(found):
        return kind
    nearest = _of_nearest_shapes(found)
    first = max(nearest, key=_nearness)
    path = _path(first["loc"])
    if first["type"] == "extra_forbidden":
        return _not_known(path, body)
    told = _told_of_kinds(first, [one for one in found if _path(one["loc"]) == path]) or _told(first)
    return RequestError(f"`{path}`: {told}", param=path or None, code="invalid_parameter")


def _not_known(path: str, body: type[BaseModel]) -> RequestError:
    """Return an error for a field of an object that takes no other fields than its own, which it names."""
    parent, _, name = re.sub(r"\[\d+\]", "[]", path).rpartition(".")
    inside = [found.rpartition(".") for found, _, _ in paths_of(body)]
    names = [known for above, _, known in inside if above == parent]
    meant = Nearest(names).find(name)
    what = f"did you mean `{meant}`?" if meant else f"known: {', '.join(sorted(names))}"
    return RequestError(f"`{path}` is no field that is known here; {what}", param=path, code="invalid_parameter")


def _nearness(one: ErrorDetails) -> tuple[bool, int, bool]:
    """Return what is greatest for the error to name. A list that is too long had items of the right kind: what other
    kinds of lists say of its items is beside the point."""
    kind = one["type"]
    return kind == "too_long", len(one["loc"]), not kind.endswith(("_type", "bool_parsing"))


def _told_of_kinds(first: ErrorDetails, same: list[ErrorDetails]) -> str:
    """Return what every possible kind of value would be, where a field has several and was given none of them; "" where
    it has one, or what is wrong is no kind."""
    if first["type"] not in _KINDS:
        return ""
    wanted = list(
        dict.fromkeys(_KINDS[one["type"]].format(**one.get("ctx", {})) for one in same if one["type"] in _KINDS)
    )
    if len(wanted) < 2:
        return ""
    comma = "," if any(" or " in kind for kind in wanted) else ""
    return f"Input should be {', '.join(wanted[:-1])}{comma} or {wanted[-1]}, found {_shown(first['input'])}"


_KINDS = {
    "string_type": "a string",
    "list_type": "an array",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "literal_error": "{expected}",
} | dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object")
"""Kinds of values, by pydantic's name of the error that says that something is none."""


def _of_nearest_shapes(found: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors of the nearest of several possible objects: the one whose `type` matches, else the one with the
    fewest wrong fields."""
    shapes: dict[tuple[int | str, ...], dict[tuple[int | str, ...], list[ErrorDetails]]] = {}
    for one in found:
        loc = one["loc"]
        for at, part in enumerate(loc):
            if _is_object(part):
                shapes.setdefault(loc[:at], {}).setdefault(loc[: at + 1], []).append(one)
    far = {one["loc"] for one in found if one["loc"][:-1] in shapes and _is_no_word(one)}
    for places in shapes.values():
        best = min(
            places, key=lambda shape: (any(one["loc"] == (*shape, "type") for one in places[shape]), len(places[shape]))
        )
        far |= places.keys() - {best}
    return [one for one in found if not any(one["loc"][:at] in far for at in range(1, len(one["loc"]) + 1))]


def _is_object(part: int | str) -> bool:
    """Return whether a part of an error's location is the name of a model."""
    return isinstance(part, str) and (part[:1].isupper() or part.startswith("function-after["))


def _is_no_word(one: ErrorDetails) -> bool:
    """Return whether the error is an object in place of one of several strings."""
    return one["type"] == "literal_error" and isinstance(one["input"], dict)


def _told(one: ErrorDetails) -> str:
    """Return pydantic's message in terms of JSON, with the value found."""
    kind = one["type"]
    if kind == "value_error":
        return one["msg"].removeprefix("Value error, ")
    if kind == "missing" or "not " in one["msg"].partition(" after validation")[2]:
        return one["msg"]
    expected = _JSON_WORDS.get(kind, one["msg"])
    return f"{expected}, found {_shown(one['input'])}"


_JSON_WORDS = dict.fromkeys(
    ("dict_type", "model_type", "model_attributes_type"), "Input should be an object"
) | {"list_type": "Input should be an array"}  # fmt: skip
_LONGEST_SHOWN = 40


def _shown(value: Any) -> str:
    """Return a value as JSON for a message; an object, an array or a long string is only named, other long JSON is
    cut."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return f"a string of {len(value)} characters"
    text = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 2 * _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _kind_not_served(found: list[ErrorDetails]) -> RequestError | None:
    """Return an error where something has a `type` that no possible shape has: an image, where only text is read."""
    kinds: dict[str, list[ErrorDetails]] = {}
    for one in found:
        if one["type"] == "union_tag_invalid":
            kinds.setdefault(_path(one["loc"]), []).append(one)
        elif one["type"] == "literal_error" and one["loc"][-1] == "type":
            kinds.setdefault(_path(one["loc"][:-1]), []).append(one)
    for path, ones in kinds.items():
        shapes = {one["loc"][:-1] for one in ones if one["type"] == "literal_error"}
        objects = [one for one in found if one["type"] != "string_type" or not isinstance(one["input"], dict)]
        others = {
            one["loc"][: len(shape)] for shape in shapes for one in objects if _path(one["loc"][: len(shape)]) == path
        }
        if path and others <= shapes:
            return _not_served(path, ones)
    return None


_UNREAD = {"image": "images", "audio": "audio", "video": "videos", "file": "files"}


def _not_served(path: str, ones: list[ErrorDetails]) -> RequestError:
    context = [one.get("ctx", {}) for one in ones]
    given = context[0].get("tag", ones[0]["input"])
    expected = ", ".join(dict.fromkeys(str(one.get("expected_tags") or one.get("expected")) for one in context))
    unread = next((f"; models here read text, no {kinds}" for word, kinds in _UNREAD.items() if word in str(given)), "")
    return RequestError(
        f"`{path}`: type {str(given)[:64]!r} is not served here{unread}; expected {expected}",
        param=f"{path}.type",
        code="unsupported_parameter",
    )


def _path(location: tuple[int | str, ...]) -> str:
    return place_of(tuple(part for part in location if not _is_branch(part)))


def _without_kinds(location: tuple[int | str, ...], tree: Any) -> tuple[int | str, ...]:
    """Return a location without the kinds of blocks that pydantic puts into it: `document` in `content[0].document.
    source`, of a block whose `type` says so."""
    kept: list[int | str] = []
    for at, part in enumerate(location):
        is_kind = isinstance(tree, dict) and tree.get("type") == part and at + 1 < len(location)
        if is_kind and not isinstance(tree.get(part), dict | list):
            continue
        if not _is_branch(part):
            tree = _inside(tree, part)
        kept.append(part)
    return tuple(kept)


def _inside(tree: Any, part: int | str) -> Any:
    if isinstance(tree, dict):
        return tree.get(part)
    return tree[part] if isinstance(tree, list) and isinstance(part, int) and part < len(tree) else None


def _is_branch(part: int | str) -> bool:
    """Return whether a part is pydantic's own name for one shape of several."""
    return isinstance(part, str) and (part in ("str", "bool", "constrained-str") or "[" in part or part[:1].isupper())
