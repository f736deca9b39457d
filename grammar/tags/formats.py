"""What a structural tag says, as a tree: the public shape that vLLM and XGrammar take, read strictly.

Both shapes are read: `{"structures": [{"begin", "schema", "end"}], "triggers": [...]}` and `{"format": {"type": ...}}`.
`min_count`, `max_count`, `text_before` and `text_after` are our additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

MOST_TAGS = 1_000
MOST_CHARACTERS = 1_000
"""Of one literal: a begin, an end, a trigger, a separator."""
_DEEPEST = 200


@dataclass(frozen=True, slots=True, eq=False)
class ConstFormat:
    """Exactly `text`."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class JsonFormat:
    """A JSON value that satisfies `schema`; `pointer` leads to it from the whole tag."""

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
class AnyTextFormat:
    """Anything that holds none of `excludes`, up to the literal that follows, or up to the end."""

    excludes: tuple[str, ...] = ()


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
    | JsonFormat
    | RegexFormat
    | LarkFormat
    | AnyTextFormat
    | SequenceFormat
    | OrFormat
    | OptionalFormat
    | TagFormat
    | TriggeredFormat
    | SeparatedFormat
)


def read_structural_tag(value: Any) -> Format:
    """Raises `InvalidGrammar` or `GrammarLimit` with a pointer into `value`."""
    fields = _object(value, "")
    if fields.get("type", "structural_tag") != "structural_tag":
        raise InvalidGrammar(f"a structural tag has the type 'structural_tag', not {fields['type']!r}", pointer="/type")
    if "format" in fields:
        _only(fields, "", ("type", "format"))
        return _format(fields["format"], "/format")
    return _triggered(fields, "", structures=True)


def _format(value: Any, at: str) -> Format:
    if at.count("/") > _DEEPEST:
        raise GrammarLimit(f"formats nest deeper than {_DEEPEST} steps of a pointer", pointer=at)
    fields = _object(value, at)
    kind = fields.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise InvalidGrammar(
            f"unknown format {kind!r}; the formats are {', '.join(sorted(_READERS))}", pointer=f"{at}/type"
        )
    found: Format = reader(fields, at)
    return found


def _const(fields: dict[str, Any], at: str) -> ConstFormat:
    _only(fields, at, ("type", "value"))
    return ConstFormat(_literal(fields, "value", at))


def _json(fields: dict[str, Any], at: str) -> JsonFormat:
    _only(fields, at, ("type", "json_schema", "style"))
    if fields.get("style", "json") != "json":
        raise InvalidGrammar(f"only style 'json' is enforced, not {fields['style']!r}", pointer=f"{at}/style")
    return _schema(fields.get("json_schema"), f"{at}/json_schema")


def _schema(schema: Any, at: str) -> JsonFormat:
    if not isinstance(schema, dict | bool):
        raise InvalidGrammar("a schema is wanted here: an object, true or false", pointer=at)
    return JsonFormat(schema, at)


def _regex(fields: dict[str, Any], at: str) -> RegexFormat:
    _only(fields, at, ("type", "pattern"))
    return RegexFormat(_text(fields, "pattern", at), f"{at}/pattern")


def _lark(fields: dict[str, Any], at: str) -> LarkFormat:
    _only(fields, at, ("type", "grammar"))
    return LarkFormat(_text(fields, "grammar", at), f"{at}/grammar")


def _any_text(fields: dict[str, Any], at: str) -> AnyTextFormat:
    _only(fields, at, ("type", "excludes"))
    return AnyTextFormat(_literals(fields, "excludes", at))


def _sequence(fields: dict[str, Any], at: str) -> SequenceFormat:
    _only(fields, at, ("type", "elements"))
    return SequenceFormat(_elements(fields, at))


def _either(fields: dict[str, Any], at: str) -> OrFormat:
    _only(fields, at, ("type", "elements"))
    found = _elements(fields, at)
    if not found:
        raise InvalidGrammar("there is nothing to choose from: the list is empty", pointer=f"{at}/elements")
    return OrFormat(found)


def _optional(fields: dict[str, Any], at: str) -> OptionalFormat:
    _only(fields, at, ("type", "content"))
    return OptionalFormat(_format(fields.get("content"), f"{at}/content"))


def _elements(fields: dict[str, Any], at: str) -> tuple[Format, ...]:
    return tuple(
        _format(value, f"{at}/elements/{i}") for i, value in enumerate(_list(fields, "elements", at, MOST_TAGS))
    )


def _tag(fields: dict[str, Any], at: str) -> TagFormat:
    if fields.get("type", "tag") != "tag":
        raise InvalidGrammar(f"only formats of the type 'tag' stand here, not {fields['type']!r}", pointer=f"{at}/type")
    _only(fields, at, ("type", "begin", "content", "end"))
    return TagFormat(_literal(fields, "begin", at), _format(fields.get("content"), f"{at}/content"), _ends(fields, at))


def _structure(value: Any, at: str) -> TagFormat:
    """The older spelling of a tag: its content is always a schema."""
    fields = _object(value, at)
    _only(fields, at, ("begin", "schema", "end"))
    return TagFormat(_literal(fields, "begin", at), _schema(fields.get("schema"), f"{at}/schema"), _ends(fields, at))


def _ends(fields: dict[str, Any], at: str) -> tuple[str, ...]:
    if not isinstance(fields.get("end"), list):
        return (_literal(fields, "end", at),)
    found = _literals(fields, "end", at)
    if not found:
        raise InvalidGrammar("a tag needs an end", pointer=f"{at}/end")
    return found


def _tags(fields: dict[str, Any], at: str, structures: bool) -> tuple[TagFormat, ...]:
    name = "structures" if structures else "tags"
    read = _structure if structures else lambda value, where: _tag(_object(value, where), where)
    found = tuple(read(value, f"{at}/{name}/{i}") for i, value in enumerate(_list(fields, name, at, MOST_TAGS)))
    for i, tag in enumerate(found):
        if not tag.begin:
            raise InvalidGrammar(
                "a tag among several needs a begin that is not empty", pointer=f"{at}/{name}/{i}/begin"
            )
    return found


_COUNTS = ("at_least_one", "stop_after_first", "min_count", "max_count")


def _triggered(fields: dict[str, Any], at: str, structures: bool = False) -> TriggeredFormat:
    names = ("type", "triggers", "structures" if structures else "tags", "excludes", "text_before", "text_after")
    _only(fields, at, (*names, *_COUNTS))
    tags = _tags(fields, at, structures)
    triggers = _literals(fields, "triggers", at)
    for i, tag in enumerate(tags):
        if sum(tag.begin.startswith(trigger) for trigger in triggers) != 1:
            where = f"{at}/{'structures' if structures else 'tags'}/{i}/begin"
            raise InvalidGrammar(f"{tag.begin!r} must begin with exactly one of the triggers", pointer=where)
    low, high = _counts(fields, at)
    first, only = _flag(fields, "at_least_one", at, False), _flag(fields, "stop_after_first", at, False)
    before = _flag(fields, "text_before", at, not first)
    after = _flag(fields, "text_after", at, not only)
    return TriggeredFormat(triggers, tags, low, high, _literals(fields, "excludes", at), before, after)


def _separated(fields: dict[str, Any], at: str) -> SeparatedFormat:
    _only(fields, at, ("type", "tags", "separator", *_COUNTS))
    low, high = _counts(fields, at)
    return SeparatedFormat(_tags(fields, at, False), _literal(fields, "separator", at), low, high)


def _counts(fields: dict[str, Any], at: str) -> tuple[int, int | None]:
    low = _count(fields, "min_count", at) or 0
    high = _count(fields, "max_count", at)
    if _flag(fields, "at_least_one", at, False):
        low = max(low, 1)
    if _flag(fields, "stop_after_first", at, False):
        high = 1 if high is None else min(high, 1)
    if high is not None and low > high:
        raise InvalidGrammar(f"at least {low} and at most {high} tags are asked for", pointer=f"{at}/max_count")
    return low, high


def _count(fields: dict[str, Any], name: str, at: str) -> int | None:
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MOST_TAGS:
        raise InvalidGrammar(f"{name} must be a number from 0 to {MOST_TAGS}, not {found!r}", pointer=f"{at}/{name}")
    return found


def _flag(fields: dict[str, Any], name: str, at: str, default: bool) -> bool:
    found = fields.get(name, default)
    if not isinstance(found, bool):
        raise InvalidGrammar(f"{name} must be true or false, not {found!r}", pointer=f"{at}/{name}")
    return found


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidGrammar(f"an object is wanted here, not {type(value).__name__}", pointer=at)
    return value


def _only(fields: dict[str, Any], at: str, names: tuple[str, ...]) -> None:
    for name in fields:
        if name not in names:
            raise InvalidGrammar(f"unknown field {name!r}; known are {', '.join(names)}", pointer=f"{at}/{name}")


def _list(fields: dict[str, Any], name: str, at: str, most: int) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list | tuple):
        raise InvalidGrammar(f"{name} must be a list", pointer=f"{at}/{name}")
    if len(found) > most:
        raise GrammarLimit(f"{name} has {len(found)} entries; at most {most} are read", pointer=f"{at}/{name}")
    return list(found)


def _text(fields: dict[str, Any], name: str, at: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise InvalidGrammar(f"{name} must be a text", pointer=f"{at}/{name}")
    return found


def _literal(fields: dict[str, Any], name: str, at: str) -> str:
    found = _text(fields, name, at)
    if len(found) > MOST_CHARACTERS:
        raise GrammarLimit(f"{name} has {len(found)} characters, at most {MOST_CHARACTERS}", pointer=f"{at}/{name}")
    if any("\ud800" <= char <= "\udfff" for char in found):
        raise InvalidGrammar(f"{name} holds a lone surrogate, which no text can", pointer=f"{at}/{name}")
    return found


def _literals(fields: dict[str, Any], name: str, at: str) -> tuple[str, ...]:
    values = _list({name: fields.get(name, [])}, name, at, MOST_TAGS)
    found = tuple(_literal({str(i): value}, str(i), f"{at}/{name}") for i, value in enumerate(values))
    if name != "end" and "" in found:
        raise InvalidGrammar("an empty text is everywhere", pointer=f"{at}/{name}/{found.index('')}")
    return found


_READERS: dict[str, Any] = {
    "const_string": _const,
    "json_schema": _json,
    "regex": _regex,
    "grammar": _lark,
    "any_text": _any_text,
    "sequence": _sequence,
    "or": _either,
    "optional": _optional,
    "tag": _tag,
    "triggered_tags": _triggered,
    "tags_with_separator": _separated,
}
