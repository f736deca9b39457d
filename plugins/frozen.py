"""Frozen dataclasses that are made as fast as others.

A frozen dataclass sets every field through `object.__setattr__`, which looks the field up by name each time: 0.1 to
0.4 us a field, against 0.01 us for an assignment that the interpreter has specialised. A request makes some sixty of
them, a chunk of a stream five. `quick` replaces `__init__` alone: while that runs, the object belongs to a twin of the
class that allows assignment. Nobody else has the object yet; from then on it is as frozen as any. Both changes of class
take as long as the rest: `frozen_when_checked` does without, for what never leaves the gateway.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")
_become = object.__dict__["__class__"].__set__


def quick(cls: type[T]) -> type[T]:
    """Make a frozen dataclass fast to construct. Use above `@dataclass(frozen=True, slots=True)`, for classes
    instantiated by the thousand. A subclass keeps the dataclass's own `__init__`."""
    slow = cls.__init__
    loose = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    twin = type(cls.__name__, (cls,), loose)
    fields, given, names = _parameters(cls)
    begun = [
        "    if type(self) is not _cls:",
        f"        return _slow(self, {', '.join(field.name for field in fields)})",
        "    _become(self, _twin)",
    ]
    _construct(cls, given, begun, fields, ["    self.__class__ = _cls"], {**names, "_twin": twin, "_slow": slow})
    return cls


def frozen_when_checked(cls: type[T]) -> type[T]:
    """Make a frozen dataclass as fast to construct as a plain one: a type checker refuses assignments to it, the
    interpreter does not. Use above `@dataclass(frozen=True, slots=True)`, for classes that no plug-in ever sees."""
    fields, given, names = _parameters(cls)
    del cls.__setattr__, cls.__delattr__
    _construct(cls, given, [], fields, [], names)
    return cls


def _parameters(cls: type) -> tuple[list[dataclasses.Field[Any]], list[str], dict[str, Any]]:
    """Return (fields, parameters of `__init__` as written, the names that these use)."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    names: dict[str, Any] = {"_cls": cls, "_become": _become, "_unset": _UNSET}
    given = []
    for field in fields:
        if field.default is not dataclasses.MISSING:
            names[f"_default_{field.name}"] = field.default
            given.append(f"{field.name}=_default_{field.name}")
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{field.name}"] = field.default_factory
            given.append(f"{field.name}=_unset")
        else:
            given.append(field.name)
    return fields, given, names


def _construct(
    cls: type,
    given: list[str],
    begun: list[str],
    fields: list[dataclasses.Field[Any]],
    ended: list[str],
    names: dict[str, Any],
) -> None:
    """Replace the `__init__` of `cls` by one that assigns each field between `begun` and `ended`."""
    lines = [f"def __init__(self, {', '.join(given)}):"]
    for field in fields:
        if field.default_factory is not dataclasses.MISSING:
            lines.append(f"    if {field.name} is _unset: {field.name} = _make_{field.name}()")
    lines += [*begun, *[f"    self.{field.name} = {field.name}" for field in fields], *ended]
    exec("\n".join(lines), names)  # the dataclass's own `__init__` is made in the same way
    made, slow = names["__init__"], cls.__init__  # type: ignore[misc]
    made.__annotations__, made.__qualname__ = slow.__annotations__, slow.__qualname__
    made.__module__, made.__wrapped__ = cls.__module__, slow
    cls.__init__ = made  # type: ignore[misc]


class _Unset:
    def __repr__(self) -> str:
        return "<made anew>"


_UNSET = _Unset()
