"""What a body says, held against the table of fields: refused where it would change the answer, else reported.

Nothing that a caller sends is dropped in silence. A field that the table knows is served, refused by name, or named in
the answer (`sluicegate.ignored`, header `x-sluicegate-ignored`); so is one that nobody knows, unless it looks like
another one mistyped: then the caller meant something by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field

from sluicegate.gateway.api.body.nearest import Nearest
from sluicegate.gateway.fields import Dialect, Row, asks, rows_of
from sluicegate.plugins import RequestError

MOST_TOLD = 50
LONGEST_NAME = 100
_PLAIN = frozenset({str, int, float, bool, dict, type(None)})


class Wire(BaseModel):
    """Part of a body. What it has no field for is kept, to be reported; one that takes whatever comes says so by
    `takes_all`."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    @property
    def takes_all(self) -> bool:
        return False


W = TypeVar("W", bound=Wire)
P = TypeVar("P")
Listed = Annotated[list[P], Field(fail_fast=True)]
"""A list that is read up to its first wrong entry: thousands of complaints take seconds to be made, and one is sent."""


class Heeding(Generic[W]):
    """The fields of one dialect's bodies. `dialect` None: a body that the table has no dialect for."""

    def __init__(self, kind: type[W], dialect: Dialect | None = None) -> None:
        self.kind = kind
        self._rows: Mapping[str, Row] = rows_of(dialect) if dialect else {}
        self._dialect = dialect
        self._served = frozenset(kind.__pydantic_fields__)
        self._numbers = frozenset(name for name, f in kind.__pydantic_fields__.items() if _is_number(f.annotation))
        self._near = Nearest({*self._served, *(path for path in self._rows if path.isidentifier())})
        self._unheeded = self._reported_fields()

    def strangers(self, tree: Mapping[str, Any]) -> list[str]:
        """Names at the top of a body that are to be reported. Raises `RequestError` for one that is refused. Run for
        every request: a known name costs one look-up."""
        found: set[str] = set()
        served = self._served
        for name, value in tree.items():
            if name not in served:
                if value is not None:
                    self._stranger(name, name, value, self._near, found)
            elif (value is True or value is False) and name in self._numbers:
                raise RequestError(f"`{name}` is a number, not {value}".lower(), param=name, code="invalid_parameter")
        return sorted(found)

    def ignored(self, wire: W, strangers: Iterable[str] = ()) -> tuple[str, ...]:
        """`strangers`, and paths of what is inside fields and not used, without the places in lists:
        `messages[].annotations`. Raises `RequestError` for what is refused there."""
        found = set(strangers)
        self._walk(wire, "", found)
        return tuple(sorted(found)) if found else ()

    def _walk(self, model: Wire, path: str, found: set[str]) -> None:
        """Run for every request: plain values are passed over at the cost of one look at their type."""
        extra, values = model.__pydantic_extra__, model.__dict__
        if extra and path and not model.takes_all:
            for name, value in extra.items():
                if value is not None:
                    self._stranger(path + name, name, value, _names_in(type(model)), found)
        if unheeded := self._unheeded.get(type(model)):
            for name, row in unheeded:
                if asks(row, values.get(name)):
                    found.add(path + name)
        for name in model.__pydantic_fields_set__:
            value = values.get(name)
            if type(value) in _PLAIN:
                continue
            for part in value if type(value) is list else (value,):
                if isinstance(part, Wire):
                    self._walk(part, f"{path}{name}." if part is value else f"{path}{name}[].", found)

    def _stranger(self, path: str, name: str, value: Any, near: Nearest, found: set[str]) -> None:
        shown = path if len(path) <= LONGEST_NAME else f"{path[:LONGEST_NAME]}..."
        if shown in found:  # looked up already: of many messages, each has it
            return
        row = self._rows.get(path)
        if row is not None:
            if not asks(row, value):
                return
            if self._dialect is None or row.status[self._dialect] == "refused":
                raise RequestError(f"`{path}`: {row.reason}", param=path, code="unsupported_parameter")
        else:
            _check_unknown(path, name, near)
        found.add(shown)
        if len(found) > MOST_TOLD:
            raise RequestError(
                f"the body has more than {MOST_TOLD} fields without a use here, `{path}` among them; leave them out",
                param=path,
                code="unsupported_parameter",
            )

    def _reported_fields(self) -> dict[type[BaseModel], tuple[tuple[str, Row], ...]]:
        """Fields of the models that are read and have no effect, by the model: the table says which."""
        found: dict[type[BaseModel], dict[str, Row]] = {}
        for path, model, name in paths_of(self.kind):
            row = self._rows.get(path)
            if row is not None and self._dialect is not None and row.status[self._dialect] == "reported":
                found.setdefault(model, {})[name] = row
        return {model: tuple(names.items()) for model, names in found.items()}


def _check_unknown(path: str, name: str, near: Nearest) -> None:
    meant = near.find(name)
    if meant is not None:
        raise RequestError(
            f"`{path}` is no field that is known here; did you mean `{meant}`?", param=path, code="unknown_parameter"
        )


@cache
def _names_in(model: type[BaseModel]) -> Nearest:
    return Nearest(field.alias or name for name, field in model.__pydantic_fields__.items())


def paths_of(kind: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel], str]]:
    """(path, model, name of the model's field) of every field of a body, those inside other fields too."""
    yield from _paths(kind, path, ())


def _paths(kind: type[BaseModel], path: str, above: tuple[type[BaseModel], ...]) -> Iterator[tuple[str, Any, str]]:
    for name, info in kind.__pydantic_fields__.items():
        here = f"{path}{info.alias or name}"
        yield here, kind, name
        for model, listed in _models(info.annotation):
            if model not in above and model is not kind:
                yield from _paths(model, f"{here}[]." if listed else f"{here}.", (*above, kind))


def _models(annotation: Any, listed: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, listed
        return
    for part in get_args(annotation):
        yield from _models(part, listed or annotation.__class__ is list or _is_list(annotation))


def _is_number(annotation: Any) -> bool:
    """Whether true and false would be taken for 1 and 0."""
    kinds = set(_alternatives(annotation))
    return not kinds.isdisjoint((int, float)) and bool not in kinds


def _alternatives(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) not in (Annotated, Union, UnionType):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _alternatives(part)


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is list
