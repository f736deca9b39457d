"""Read a table of settings into a frozen dataclass, with one wording for every error.

    @dataclass(frozen=True, slots=True)
    class TicketSettings:
        prefixes: tuple[str, ...] = ("OPS",)
        action: Literal["redact", "block"] = "redact"
        score: Annotated[float, Within(0, 1)] = 0.5

    def register(registry: RegistryLike) -> None:
        add_stage(registry, "moderate", "tickets", TicketSettings, TicketRail)

Field names are the valid names, annotations the valid values, defaults the defaults; a field without a default is
required. Errors say where, what is expected and what was found:

    [stages.moderate.tickets] has no 'prefxes'; did you mean 'prefixes'? Valid names: prefixes, action, score
    [stages.moderate.tickets] score must be a number from 0 to 1, found 7
"""

from __future__ import annotations

import datetime
import difflib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from sluicegate.plugins.contract.disk_paths import OnDisk, are_checked, fault_of_path, wanted_of
from sluicegate.plugins.contract.names import API_VERSION, SlotName
from sluicegate.plugins.contract.registration import RegistryLike
from sluicegate.plugins.errors import ConfigurationError, plain

T = TypeVar("T")
U = TypeVar("U")
MOST_SHOWN = 200
"""Most characters of a wrong value that a message repeats."""
_WORDS: Mapping[Any, str] = {str: "string", int: "whole number", float: "number", bool: "true or false"}
_COLLECTED: ContextVar[list[str] | None] = ContextVar("collected", default=None)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, as `Annotated[float, Within(0, 1)]`; `above` and `below` exclude the bound itself."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Return whether a number is in the range; False for NaN too."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and value == value  # not for NaN; `math.isnan` takes no huge int
        )

    def __str__(self) -> str:
        words = (("from", self.least), ("above", self.above), ("to", self.most), ("below", self.below))
        return " ".join(f"{word} {plain(bound)}" for word, bound in words if bound is not None)


NOT_NEGATIVE = Within(least=0)
"""Applies to numbers whose annotation has no `Within`."""
MOST_NUMBER = 10**15
"""The largest number that a setting without an upper bound takes: clocks, stores and the machine's whole numbers hold
no number without end."""
Positive = Annotated[float, Within(above=0)]
Share = Annotated[float, Within(above=0, most=1)]
Count = Annotated[int, Within(least=1)]


@dataclass(frozen=True, slots=True)
class NoSettings:
    """Settings of a stage that takes none."""


def read_settings(kind: type[T], table: object, where: str) -> T:
    """Make a `kind` of `table`; `where` is the table's path in the configuration, such as `stages.moderate.tickets`.

    `kind` is a dataclass whose fields are `str`, `bool`, `int`, `float`, `Any`, `Literal[...]`, `tuple[X, ...]`,
    `Mapping[str, X]`, another such dataclass, or one of these `| None`; numbers may have bounds (`Within`). A value of
    a field with `repr=False` is never shown. What `kind.__post_init__` raises as `ValueError` is reported as an error
    of the table: the place for rules that concern several fields.
    Raises `ConfigurationError`.
    """
    if isinstance(table, kind):
        return table
    if (collected := _COLLECTED.get()) is not None:
        collected += _mistakes(kind, table, where)
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{_shown(where)} must be a table, found {_brief(table)}")
    known = {field.name: field for field in fields(cast(Any, kind)) if field.init}
    check_names(table, known, where)
    if missing := [name for name, field in known.items() if name not in table and _required(field)]:
        raise ConfigurationError(f"{_shown(where)} needs {missing[0]!r}; valid names: {', '.join(known)}")
    hints = _hints(cast(type, kind))
    found = {name: _read(hints[name], value, _Place(where, name, known[name].repr)) for name, value in table.items()}
    try:
        return kind(**found)
    except ValueError as error:
        raise ConfigurationError(f"{_shown(where)} {error}") from error


def read_both(first: type[T], second: type[U], table: object, where: str) -> tuple[T, U]:
    """Read one table into two dataclasses that share no field; otherwise as `read_settings`."""
    names = [[field.name for field in fields(cast(Any, kind))] for kind in (first, second)]
    if isinstance(table, Mapping):
        if (collected := _COLLECTED.get()) is not None:
            collected += _mistakes(first, table, where, names[1])
            collected += _mistakes(second, {name: table[name] for name in names[1] if name in table}, where)
        check_names(table, [*names[0], *names[1]], where)
        tables = [{name: table[name] for name in own if name in table} for own in names]
        return read_settings(first, tables[0], where), read_settings(second, tables[1], where)
    return read_settings(first, table, where), read_settings(second, table, where)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Collect the errors of every table that is read inside the block, instead of stopping at the first."""
    found: list[str] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def _mistakes(kind: Any, table: object, where: str, more: Iterable[str] = ()) -> list[str]:
    """List each error that `read_settings` would raise, separately. `more`: names that another reader accepts."""
    token = _COLLECTED.set(None)
    try:
        if not isinstance(table, Mapping):
            return _refused(lambda: read_settings(kind, table, where))
        known = [field.name for field in fields(kind) if field.init]
        found = []
        for name, value in table.items():
            if name in known:
                found += _refused(partial(_one, kind, name, value, where))
            elif name not in more:
                found += _refused(partial(check_names, [name], [*known, *more], where))
        rest = {name: table[name] for name in known if name in table}
        return found or _refused(lambda: read_settings(kind, rest, where))
    finally:
        _COLLECTED.reset(token)


def _one(kind: Any, name: str, value: object, where: str) -> None:
    """Read one field, including all nested tables. Raises `ConfigurationError` with one line per error."""
    place = _Place(where, name, next(field.repr for field in fields(kind) if field.name == name))
    hint = _hints(kind)[name]
    inner, below = _tables(hint, value, place)
    if found := [line for at, table in below for line in _mistakes(inner, table, at)]:
        raise ConfigurationError("\n".join(found))
    _read(hint, value, place)


def _tables(hint: Any, value: object, place: _Place) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the dataclass in `hint` (None: there is none), and each table of it in `value` with its path."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _tables(_without_none(inner), value, place)
    if is_dataclass(hint):
        return hint, [(place.path, value)] if isinstance(value, Mapping) else []
    if origin is tuple and is_dataclass(inner[0]) and isinstance(value, Sequence):
        found = [(place.below(at).path, one) for at, one in enumerate(value, 1) if isinstance(one, Mapping)]
        return inner[0], found
    if origin is not None and origin is not tuple and len(inner) == 2 and is_dataclass(inner[1]):
        pairs = value.items() if isinstance(value, Mapping) else ()
        return inner[1], [(place.below(name).path, one) for name, one in pairs if isinstance(one, Mapping)]
    return None, []


def _refused(read: Callable[[], object]) -> list[str]:
    try:
        read()
    except ConfigurationError as error:
        return error.message.split("\n")
    return []


def add_stage(
    registry: RegistryLike,
    slot: SlotName,
    name: str,
    kind: type[T],
    make: Callable[[T], object],
    *,
    api_version: int = API_VERSION,
) -> None:
    """Register a stage that is made of its table read as a `kind`."""
    registry.add(slot, name, StageOfSettings(kind, make, f"stages.{slot}.{name}"), api_version=api_version)


@dataclass(frozen=True, slots=True)
class StageOfSettings(Generic[T]):
    """Makes a stage of a table that is read as a `kind`; `where` begins the errors. Documents are made from `kind`."""

    kind: type[T]
    make: Callable[[T], object]
    where: str

    def __call__(self, table: Mapping[str, Any], /) -> object:
        return self.make(read_settings(self.kind, table, self.where))


def later(module: str, function: str, *first: object) -> Callable[[Any], Any]:
    """Return a factory that imports `module` and calls `function` with `first` and the settings only when the stage is
    built: registered stages that are not enabled cost nothing."""

    def make(own: Any) -> Any:
        return getattr(importlib.import_module(module), function)(*first, own)

    return make


def check_names(names: Iterable[object], valid: Iterable[str], where: str) -> None:
    """Raise `ConfigurationError` for the first of `names` that is not in `valid`, with the nearest valid name."""
    valid = list(valid)
    for name in names:
        if name not in valid:
            near = difflib.get_close_matches(str(name), valid, n=1)
            guess = f"did you mean {near[0]!r}? Valid names" if near else "valid names"
            raise ConfigurationError(f"{_shown(where)} has no {name!r}; {guess}: {', '.join(valid) or 'none'}")


def wrong_value(where: str, name: str, expected: str, found: object) -> ConfigurationError:
    """Return the error for a value of the right type that the stage does not accept."""
    return _Place(where, name).wrong(expected, found)


@dataclass(frozen=True, slots=True)
class _Place:
    """One setting, for messages."""

    where: str
    name: str
    shows_value: bool = True

    def below(self, name: object) -> _Place:
        """Name an entry below this one; items of lists count from 1."""
        return _Place(self.where, f"{self.name}.{_key(name)}", self.shows_value)

    @property
    def path(self) -> str:
        return f"{self.where}.{self.name}" if self.where else self.name

    def wrong(self, expected: str, found: object) -> ConfigurationError:
        shown = _brief(found) if self.shows_value else f"a value of type {type(found).__name__}"
        place = f"{_shown(self.where)} {self.name}" if self.where else self.name
        return ConfigurationError(f"{place} must be {expected}, found {shown}")


def _read(hint: Any, value: object, place: _Place, bounds: Within = NOT_NEGATIVE) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        given = next((extra for extra in inner[1:] if isinstance(extra, Within)), bounds)
        found = _read(inner[0], value, place, given)
        if are_checked():
            for mark in inner[1:]:
                _check_path(found, mark, place)
        return found
    if origin in (Union, UnionType):
        return None if value is None else _read(_without_none(inner), value, place, bounds)
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise place.wrong(_expected(hint, bounds), value)
        return tuple([_read(inner[0], item, place.below(at)) for at, item in enumerate(value, 1)])
    if origin is Literal:
        if value not in inner or isinstance(value, bool):
            raise place.wrong(_expected(hint, bounds), value)
        return value
    if is_dataclass(hint):
        return read_settings(cast(type, hint), value, place.path)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise place.wrong("a table", value)
        if get_origin(inner[0]) is Literal:
            check_names(value, get_args(inner[0]), place.path)
        return {name: _read(inner[1], item, place.below(name)) for name, item in value.items()}
    return value if hint is Any else _scalar(hint, value, place, bounds)


def _check_path(value: object, mark: object, place: _Place) -> None:
    """Look at a path on the disk. Raises `ConfigurationError`."""
    if isinstance(mark, OnDisk) and isinstance(value, str) and value and (why := fault_of_path(value, mark)):
        wrong = place.wrong(wanted_of(mark), value)
        raise ConfigurationError(f"{wrong.message}: {why}; correct the path, or what lies there")


def _scalar(hint: Any, value: object, place: _Place, bounds: Within) -> object:
    """Read `value` as a `hint`: a float may be written as a whole number, no number as true or false, and a text of a
    date or a time without quotes."""
    number = hint in (int, float) and isinstance(value, int | float) and not isinstance(value, bool)
    if number:
        if bounds.most is None and bounds.below is None and not -MOST_NUMBER <= cast(float, value) <= MOST_NUMBER:
            bounds = replace(bounds, most=MOST_NUMBER)
        try:
            made = hint(value)
        except (OverflowError, ValueError):  # infinity or NaN as int, a huge int as float
            raise place.wrong(_expected(hint, bounds), value) from None
        if (hint is int and made != value) or not bounds.holds(made):
            raise place.wrong(_expected(hint, bounds), value)
        return made
    if hint is str and isinstance(value, datetime.date | datetime.time):
        return value.isoformat()  # TOML has dates of its own, and they look like the text
    if hint in (int, float) or not isinstance(value, hint):
        raise place.wrong(_expected(hint, bounds), value)
    return value


def in_words(hint: Any, bounds: Within = NOT_NEGATIVE) -> str:
    """Return the accepted values of a setting annotated `hint`, in words: `a number from 0 to 1`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return in_words(inner[0], next((extra for extra in inner[1:] if isinstance(extra, Within)), bounds))
    if origin in (Union, UnionType):
        return in_words(_without_none(inner), bounds)
    if is_dataclass(hint) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "a table"
    return "anything" if hint is Any else _expected(hint, bounds)


def _expected(hint: Any, bounds: Within) -> str:
    """Return the accepted values of `hint` in words, for an error message."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        plural = f"{_WORDS[inner[0]]}s" if inner[0] in _WORDS else "tables" if is_dataclass(inner[0]) else "values"
        return f"a list of {plural}"
    if hint is bool:
        return _WORDS[bool]
    return f"a {_WORDS[hint]} {bounds}" if hint in (int, float) else f"a {_WORDS[hint]}"


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _without_none(inner: tuple[Any, ...]) -> Any:
    (hint,) = [one for one in inner if one is not NoneType]
    return hint


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _shown(where: str) -> str:
    return f"[{where}]" if where else "the configuration"


def _key(name: object) -> str:
    return str(name) if _BARE.fullmatch(str(name)) else f'"{name}"'


def _brief(value: object) -> str:
    """Return a wrong value for a message. Values of tables are left out, since a misspelled name may hold a secret."""
    if isinstance(value, Mapping):
        return f"a table of {', '.join(map(str, value))}"[:MOST_SHOWN] if value else "{}"
    if isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        return "a list of tables"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
