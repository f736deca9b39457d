"""The formats that a structural tag is made of, as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class ConstFormat:
    """Exactly `text`."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class SchemaFormat:
    """A JSON value that satisfies `schema`; `pointer` leads to it from the whole tag."""

    schema: dict[str, Any] | bool
    pointer: str
    any_order: bool = False
    blanks: int | None = None
    """Most blanks between two lexemes; None: as the options say."""
    excludes: tuple[str, ...] = ()
    """Texts that no string and no name may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class RawFormat:
    """A string that satisfies `schema`, as it is, perhaps between line breaks, up to the literal that follows."""

    schema: dict[str, Any] | bool
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class RegexFormat:
    pattern: str
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class LarkFormat:
    text: str
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class StringFormat:
    """A JSON string whose value is a text of `content`, spelled without needless escapes."""

    content: RegexFormat | LarkFormat


@dataclass(frozen=True, slots=True, eq=False)
class AnyTextFormat:
    """At most `most` characters and `most_tokens` tokens (None: any number) that hold none of `excludes`, up to the
    literal that follows, or up to the end."""

    excludes: tuple[str, ...] = ()
    most: int | None = None
    most_tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SequenceFormat:
    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OrFormat:
    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalFormat:
    content: Format


@dataclass(frozen=True, slots=True, eq=False)
class RepeatFormat:
    """From `low` to `high` (None: any number) times `content`, one after the other."""

    content: Format
    low: int
    high: int | None
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class UnorderedFormat:
    """Each of `elements` once, those at `required` in any case, and `more` any number of times, in any order. All begin
    with literals; `blanks` stands before each and behind the last one."""

    elements: tuple[Format, ...]
    required: frozenset[int]
    more: Format | None
    blanks: RegexFormat


@dataclass(frozen=True, slots=True, eq=False)
class TagFormat:
    """`begin`, the content, and one of `ends`."""

    begin: str
    content: Format
    ends: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TriggeredFormat:
    """Free text in which each of `triggers` begins a tag. `before`, `after`: text may stand before the first tag, and
    after each one. From `low` to `high` (None: any number) tags."""

    triggers: tuple[str, ...]
    tags: tuple[TagFormat, ...]
    low: int
    high: int | None
    excludes: tuple[str, ...]
    before: bool
    after: bool


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedFormat:
    """From `low` to `high` tags with `separator` between them, and nothing else."""

    tags: tuple[TagFormat, ...]
    separator: str
    low: int
    high: int | None


Format = (
    ConstFormat
    | SchemaFormat
    | RawFormat
    | RegexFormat
    | LarkFormat
    | AnyTextFormat
    | SequenceFormat
    | StringFormat
    | OrFormat
    | OptionalFormat
    | RepeatFormat
    | UnorderedFormat
    | TagFormat
    | TriggeredFormat
    | SeparatedFormat
)
