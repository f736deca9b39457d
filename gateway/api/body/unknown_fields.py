"""Unknown and unsupported fields of a body: rejected where they could change the answer, else reported.

Nothing that a caller sends is dropped silently. A field of the table is served, rejected by name, or reported in the
answer (`sluicegate.ignored`, header `x-sluicegate-ignored`). A field outside the table is reported too, unless it looks
like a misspelled known one, or its name or value like a constraint's: then it is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from sluicegate.gateway.api.body.nearest import Nearest
from sluicegate.gateway.api.body.unknown_constraints import could_constrain, what_to_send
from sluicegate.gateway.fields import Row, SamplingRow, Status, asks, rows_of
from sluicegate.plugins import RequestError

MOST_REPORTED = 50
LONGEST_NAME = 100
_PLAIN = frozenset({str, int, float, bool, dict, type(None)})


class Wire(BaseModel):
    """Part of a body. Unknown fields are kept, to be reported. `takes_all`: the model accepts any field; `shapes`: the
    model constrains the answer, so an unknown field may do so too."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    @property
    def takes_all(self) -> bool:
        return False

    @property
    def shapes(self) -> bool:
        return False


W = TypeVar("W", bound=Wire)
P = TypeVar("P")
Listed = Annotated[list[P], Field(fail_fast=True)]
"""A list that is read up to its first wrong entry: thousands of complaints take seconds to be made, and one is sent."""


class BodyFields(Generic[W]):
    """The fields of one dialect's bodies. Immutable."""

    def __init__(self, kind: type[W], dialect: str = "", *, rows: Iterable[Row] = (), sampling: str = "") -> None:
        """Prepare to read bodies of one dialect. `kind` is the model of a body, without the sampling options that a
        type and bounds describe. `dialect` is its name in the table of fields, empty for a body that is no dialect's. A
        dialect that the table does not name gives `rows` of its own, and in `sampling` the shared options that it
        serves, with blanks between."""
        shared = rows_of(dialect) if dialect else {}
        self.rows: Mapping[str, Row] = {**shared, **{row.path: row for row in rows}}
        self.sampling = _sampling_rows(self.rows.values(), dialect, sampling.split())
        self.dependent = {path: row for path, row in self.sampling.items() if row.needs}
        self.kind = _with_sampling(kind, self.sampling)
        self._dialect = dialect
        self._paths = frozenset(path for path, _, _ in paths_of(self.kind))
        self._served = frozenset(self.kind.__pydantic_fields__)
        self._numbers = frozenset(name for name, f in self.kind.__pydantic_fields__.items() if _is_number(f.annotation))
        self._unused = self._reported_fields()

    @cached_property
    def _near(self) -> Nearest:
        """Return the index of names at the top of a body. It is built for the first name that is none of them, not at
        start-up."""
        return Nearest({*self._served, *(path for path in self.rows if path.isidentifier())})

    def status_of(self, row: Row) -> Status | None:
        """Return how this dialect treats a row's field; None where the body has no such field, or another row
        decides."""
        if self.rows.get(row.path, row) is not row:
            return None
        named = row.support.named.get(self._dialect)
        return named or ("served" if row.path in self._paths else row.support.otherwise)

    def unknown(self, tree: Mapping[str, Any]) -> list[str]:
        """Return the names at the top of a body that are to be reported. Runs for every request: a known name costs one
        look-up. Raises `RequestError` for a field that is refused."""
        found: set[str] = set()
        served = self._served
        for name, value in tree.items():
            if name not in served:
                if value is not None:
                    self._add_unknown(name, name, value, self._near, found)
            elif (value is True or value is False) and name in self._numbers:
                raise RequestError(f"`{name}` is a number, not {value}".lower(), param=name, code="invalid_parameter")
        return sorted(found)

    def ignored(self, wire: W, unknown: Iterable[str] = ()) -> tuple[str, ...]:
        """Return `unknown`, and the paths of unused fields inside others, without places in lists:
        `messages[].annotations`. Raises `RequestError` for what is refused there."""
        found = set(unknown)
        self._walk(wire, "", found)
        return tuple(sorted(found)) if found else ()

    def _walk(self, model: Wire, path: str, found: set[str]) -> None:
        """Add to `found` the fields of `model` that are unknown or have no effect. Runs for every request: plain values
        are passed over at the cost of one look at their type."""
        extra, values = model.__pydantic_extra__, model.__dict__
        if extra and path and not model.takes_all:
            for name, value in extra.items():
                if value is not None:
                    self._add_unknown(path + name, name, value, _names_in(type(model)), found)
                    if model.shapes and isinstance(value, str | dict | list):
                        raise _unknown_constraint(path + name, name, self._dialect)
        if unused := self._unused.get(type(model)):
            for name, row in unused:
                if asks(row, values.get(name)):
                    found.add(path + name)
        for name in model.__pydantic_fields_set__:
            value = values.get(name)
            if type(value) in _PLAIN:
                continue
            for part in value if type(value) is list else (value,):
                if isinstance(part, Wire):
                    self._walk(part, f"{path}{name}." if part is value else f"{path}{name}[].", found)

    def _add_unknown(self, path: str, name: str, value: Any, near: Nearest, found: set[str]) -> None:
        shown = path if len(path) <= LONGEST_NAME else f"{path[:LONGEST_NAME]}..."
        if shown in found:  # of many messages, each may have it
            return
        row = self.rows.get(path)
        if row is None:
            _check_unknown(path, name, near)
            if could_constrain(path, name, value):
                raise _unknown_constraint(path, name, self._dialect)
        elif not asks(row, value):
            return
        elif self.status_of(row) == "refused":
            raise RequestError(f"`{path}`: {row.reason_in(self._dialect)}", param=path, code="unsupported_parameter")
        found.add(shown)
        if len(found) > MOST_REPORTED:
            raise RequestError(
                f"the body has more than {MOST_REPORTED} fields without a use here, `{path}` among them; leave them "
                "out",
                param=path,
                code="unsupported_parameter",
            )

    def _reported_fields(self) -> dict[type[BaseModel], tuple[tuple[str, Row], ...]]:
        """Return, by model, its fields that are read and have no effect, as the table says."""
        found: dict[type[BaseModel], dict[str, Row]] = {}
        for path, model, name in paths_of(self.kind):
            row = self.rows.get(path)
            if row is not None and self.status_of(row) == "reported":
                found.setdefault(model, {})[name] = row
        return {model: tuple(names.items()) for model, names in found.items()}


def _sampling_rows(rows: Iterable[Row], dialect: str, shared: Iterable[str]) -> Mapping[str, SamplingRow]:
    """Return, by path, the options that become attributes of `Sampling` as they are."""
    own = [row for row in rows if isinstance(row, SamplingRow) and not row.by_hand]
    return {row.path: row for row in own if row.support.named.get(dialect) == "served" or row.path in shared}


def _with_sampling(kind: type[W], rows: Mapping[str, SamplingRow]) -> type[W]:
    """Return `kind` with fields for the rows that describe them whole; what `kind` has already stays."""
    missing = [row for name, row in rows.items() if row.type is not None and name not in kind.__pydantic_fields__]
    fields: dict[str, Any] = {row.path: (row.type | None, Field(default=None, **(row.bounds or {}))) for row in missing}
    if not fields:
        return kind
    return create_model(kind.__name__, __base__=kind, __module__=kind.__module__, __doc__=kind.__doc__, **fields)


def _unknown_constraint(path: str, name: str, dialect: str) -> RequestError:
    shown = path[:LONGEST_NAME]
    return RequestError(
        f"`{shown}` is no field that is known here, and could change the answer; {what_to_send(path, name, dialect)}",
        param=shown,
        code="unsupported_parameter",
    )


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
    """Yield (path, model, name of the model's field) of every field of a body, those inside other fields too."""
    yield from _paths(kind, path, ())


def _paths(kind: type[BaseModel], path: str, above: tuple[type[BaseModel], ...]) -> Iterator[tuple[str, Any, str]]:
    for name, info in kind.__pydantic_fields__.items():
        here = f"{path}{info.alias or name}"
        yield here, kind, name
        for model, listed in models_in(info.annotation):
            if model not in above and model is not kind:
                yield from _paths(model, f"{here}[]." if listed else f"{here}.", (*above, kind))


def models_in(annotation: Any, listed: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield (model, whether it stands in a list) of the models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, listed
        return
    for part in get_args(annotation):
        yield from models_in(part, listed or annotation.__class__ is list or _is_list(annotation))


def _is_number(annotation: Any) -> bool:
    """Return whether true and false would be taken for 1 and 0."""
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
