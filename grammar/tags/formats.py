"""Read a structural tag, in the shape that vLLM and XGrammar take, into a tree.

Both shapes are read: `{"structures": [{"begin", "schema", "end"}], "triggers": [...]}` and `{"format": {"type": ...}}`.
`min_count`, `max_count`, `text_before` and `text_after` are our additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluicegate.grammar.tags.nodes import (
    AnyTextFormat,
    ConstFormat,
    Format,
    LarkFormat,
    OptionalFormat,
    OrFormat,
    RegexFormat,
    RepeatFormat,
    SchemaFormat,
    SeparatedFormat,
    SequenceFormat,
    StringFormat,
    TagFormat,
    TriggeredFormat,
)
from sluicegate.grammar.tags.styles import Wanted, styled
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, UnsupportedGrammar

MOST_TAGS = 1_000
MOST_TEXT = 10_000
"""Most characters of free text that can be counted."""
MOST_TOKENS = 1_000_000
MOST_CHARACTERS = 1_000
"""Most characters of one literal: a begin, an end, a trigger, a separator."""
_DEEPEST = 200
Fields = dict[str, Any]


def read_structural_tag(value: Any) -> Format:
    """Read `value` into a tree. Raises `InvalidGrammar` or `GrammarLimit` with a pointer into `value`."""
    fields = _object(value, "")
    if fields.get("type", "structural_tag") != "structural_tag":
        raise InvalidGrammar(f"a structural tag has the type 'structural_tag', not {fields['type']!r}", pointer="/type")
    if "format" in fields:
        _only(fields, "", ("type", "format"))
        return _format(fields["format"], "/format")
    _only(fields, "", ("type", "triggers", "structures", *_TRIGGERED))
    return _triggered(fields, "", "structures")


def _format(value: Any, at: str) -> Format:
    if at.count("/") > _DEEPEST:
        raise GrammarLimit(f"formats nest deeper than {_DEEPEST} steps of a pointer", pointer=at)
    fields = _object(value, at)
    kind = fields.get("type")
    known = _FORMATS.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and kind in _BY_TOKEN:
        raise UnsupportedGrammar(
            f"formats of the type {kind!r} name tokens, and masks are made of their text; write it with "
            f"{_BY_TOKEN[kind]!r}",
            pointer=f"{at}/type",
        )
    if known is None:
        raise InvalidGrammar(
            f"unknown format {kind!r}; the formats are {', '.join(sorted(_FORMATS))}", pointer=f"{at}/type"
        )
    read, names = known
    _only(fields, at, ("type", *names))
    return read(_given(fields), at)


def _given(fields: Fields) -> Fields:
    """Return the fields that are not null: programs that dump their models write `null` for what was left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _json(fields: Fields, at: str) -> Format:
    found = _schema(fields.get("json_schema"), f"{at}/json_schema")
    any_order = _flag(fields, "any_order", at, False)
    blanks = _count(fields, "max_whitespace_cnt", at)
    style = fields.get("style", "json")
    excludes = _literals(fields, "excludes", at)
    if style == "json":
        return SchemaFormat(found.schema, found.pointer, any_order, blanks, excludes)
    return styled(found.schema, str(style), at, Wanted(excludes, any_order, blanks))


def _qwen_xml(fields: Fields, at: str) -> Format:
    """Read the older name of `json_schema` with the style `qwen_xml`."""
    return styled(_schema(fields.get("json_schema"), f"{at}/json_schema").schema, "qwen_xml", at)


def _any_text(fields: Fields, at: str) -> AnyTextFormat:
    most = _count(fields, "max_chars", at, MOST_TEXT)
    return AnyTextFormat(_literals(fields, "excludes", at), most, _count(fields, "max_tokens", at, MOST_TOKENS))


def _repeat(fields: Fields, at: str) -> RepeatFormat:
    low = _count(fields, "min", at)
    high = None if fields.get("max") == -1 else _count(fields, "max", at)
    if low is None or (high is None and fields.get("max") != -1):
        raise InvalidGrammar("a repeat has a `min` and a `max`; -1 is a `max` without bound", pointer=at)
    if high is not None and low > high:
        raise InvalidGrammar(f"at least {low} and at most {high} times are asked for", pointer=f"{at}/max")
    return RepeatFormat(_format(fields.get("content"), f"{at}/content"), low, high, at)


def _dispatch(fields: Fields, at: str) -> TriggeredFormat:
    """Read a format of free text in which a pattern begins another one: tags without an end."""
    tags = []
    for i, rule in enumerate(_list(fields, "rules", at, MOST_TAGS)):
        place = f"{at}/rules/{i}"
        if not isinstance(rule, list | tuple) or len(rule) != 2:
            raise InvalidGrammar("a rule is a list of a text and a format", pointer=place)
        begin = _literal({"0": rule[0]}, "0", place)
        if not begin:
            raise InvalidGrammar("an empty text is everywhere", pointer=f"{place}/0")
        tags.append(TagFormat(begin, _format(rule[1], f"{place}/1"), ("",)))
    begins = [tag.begin for tag in tags]
    for i, begin in enumerate(begins):
        if any(other.startswith(begin) for j, other in enumerate(begins) if i != j):
            raise UnsupportedGrammar(
                f"{begin!r} begins another rule too; make the texts differ", pointer=f"{at}/rules/{i}/0"
            )
    loop = _flag(fields, "loop", at, True)
    excludes = _literals(fields, "excludes", at)
    return TriggeredFormat(tuple(begins), tuple(tags), 0, None if loop else 1, excludes, True, loop)


def _string(fields: Fields, at: str) -> StringFormat:
    content = _format(fields.get("content"), f"{at}/content")
    if not isinstance(content, RegexFormat | LarkFormat):
        raise InvalidGrammar("a json_string holds a text of a regex or of a grammar", pointer=f"{at}/content/type")
    return StringFormat(content)


def _schema(schema: Any, at: str) -> SchemaFormat:
    if not isinstance(schema, dict | bool):
        raise InvalidGrammar("a schema is wanted here: an object, true or false", pointer=at)
    return SchemaFormat(schema, at)


def _or(fields: Fields, at: str) -> OrFormat:
    found = _elements(fields, at)
    if not found:
        raise InvalidGrammar("there is nothing to choose from: the list is empty", pointer=f"{at}/elements")
    return OrFormat(found)


def _elements(fields: Fields, at: str) -> tuple[Format, ...]:
    return tuple(
        _format(value, f"{at}/elements/{i}") for i, value in enumerate(_list(fields, "elements", at, MOST_TAGS))
    )


def _tag(fields: Fields, at: str) -> TagFormat:
    return TagFormat(_literal(fields, "begin", at), _format(fields.get("content"), f"{at}/content"), _ends(fields, at))


def _among_tags(value: Any, at: str) -> TagFormat:
    """Read a tag in a list of tags, where its type may be left out."""
    fields = _object(value, at)
    if fields.get("type", "tag") != "tag":
        raise InvalidGrammar(f"only formats of the type 'tag' stand here, not {fields['type']!r}", pointer=f"{at}/type")
    _only(fields, at, ("type", *_TAG))
    return _tag(_given(fields), at)


def _structure(value: Any, at: str) -> TagFormat:
    """Read the older spelling of a tag: its content is always a schema."""
    fields = _object(value, at)
    _only(fields, at, ("begin", "schema", "end"))
    return TagFormat(_literal(fields, "begin", at), _schema(fields.get("schema"), f"{at}/schema"), _ends(fields, at))


def _ends(fields: Fields, at: str) -> tuple[str, ...]:
    if not isinstance(fields.get("end"), list):
        return (_literal(fields, "end", at),)
    found = _literals(fields, "end", at)
    if not found:
        raise InvalidGrammar("a tag needs an end", pointer=f"{at}/end")
    return found


def _tags(fields: Fields, at: str, name: str = "tags") -> tuple[TagFormat, ...]:
    read = _structure if name == "structures" else _among_tags
    found = tuple(read(value, f"{at}/{name}/{i}") for i, value in enumerate(_list(fields, name, at, MOST_TAGS)))
    for i, tag in enumerate(found):
        if not tag.begin:
            raise InvalidGrammar(
                "a tag among several needs a begin that is not empty", pointer=f"{at}/{name}/{i}/begin"
            )
    return found


def _triggered(fields: Fields, at: str, name: str = "tags") -> TriggeredFormat:
    """Read a format of tags with triggers. `name`: the field that holds the tags. Raises `InvalidGrammar` where a tag
    does not begin with exactly one of the triggers."""
    tags = _tags(fields, at, name)
    triggers = _literals(fields, "triggers", at)
    for i, tag in enumerate(tags):
        if sum(tag.begin.startswith(trigger) for trigger in triggers) != 1:
            raise InvalidGrammar(
                f"{tag.begin!r} must begin with exactly one of the triggers", pointer=f"{at}/{name}/{i}/begin"
            )
    low, high = _counts(fields, at)
    first, only = _flag(fields, "at_least_one", at, False), _flag(fields, "stop_after_first", at, False)
    before = _flag(fields, "text_before", at, not first)
    after = _flag(fields, "text_after", at, not only)
    return TriggeredFormat(triggers, tags, low, high, _literals(fields, "excludes", at), before, after)


def _separated(fields: Fields, at: str) -> SeparatedFormat:
    low, high = _counts(fields, at)
    return SeparatedFormat(_tags(fields, at), _literal(fields, "separator", at), low, high)


def _counts(fields: Fields, at: str) -> tuple[int, int | None]:
    low = _count(fields, "min_count", at) or 0
    high = _count(fields, "max_count", at)
    if _flag(fields, "at_least_one", at, False):
        low = max(low, 1)
    if _flag(fields, "stop_after_first", at, False):
        high = 1 if high is None else min(high, 1)
    if high is not None and low > high:
        raise InvalidGrammar(f"at least {low} and at most {high} tags are asked for", pointer=f"{at}/max_count")
    return low, high


def _count(fields: Fields, name: str, at: str, most: int = MOST_TAGS) -> int | None:
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most:
        raise InvalidGrammar(f"{name} must be a number from 0 to {most}, not {found!r}", pointer=f"{at}/{name}")
    return found


def _flag(fields: Fields, name: str, at: str, default: bool) -> bool:
    found = fields.get(name, default)
    if not isinstance(found, bool):
        raise InvalidGrammar(f"{name} must be true or false, not {found!r}", pointer=f"{at}/{name}")
    return found


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidGrammar(f"an object is wanted here, not {type(value).__name__}", pointer=at)
    return value


def _only(fields: Fields, at: str, names: tuple[str, ...]) -> None:
    for name in fields:
        if name not in names:
            raise InvalidGrammar(f"unknown field {name!r}; known are {', '.join(names)}", pointer=f"{at}/{name}")


def _list(fields: Fields, name: str, at: str, most: int) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list | tuple):
        raise InvalidGrammar(f"{name} must be a list", pointer=f"{at}/{name}")
    if len(found) > most:
        raise GrammarLimit(f"{name} has {len(found)} entries; at most {most} are read", pointer=f"{at}/{name}")
    return list(found)


def _text(fields: Fields, name: str, at: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise InvalidGrammar(f"{name} must be a text", pointer=f"{at}/{name}")
    return found


def _literal(fields: Fields, name: str, at: str) -> str:
    found = _text(fields, name, at)
    if len(found) > MOST_CHARACTERS:
        raise GrammarLimit(f"{name} has {len(found)} characters, at most {MOST_CHARACTERS}", pointer=f"{at}/{name}")
    if any("\ud800" <= char <= "\udfff" for char in found):
        raise InvalidGrammar(f"{name} holds a lone surrogate, which no text can", pointer=f"{at}/{name}")
    return found


def _literals(fields: Fields, name: str, at: str) -> tuple[str, ...]:
    values = _list({name: fields.get(name, [])}, name, at, MOST_TAGS)
    found = tuple(_literal({str(i): value}, str(i), f"{at}/{name}") for i, value in enumerate(values))
    if name != "end" and "" in found:
        raise InvalidGrammar("an empty text is everywhere", pointer=f"{at}/{name}/{found.index('')}")
    return found


_TAG = ("begin", "content", "end")
_COUNTS = ("at_least_one", "stop_after_first", "min_count", "max_count")
_TRIGGERED = ("excludes", "text_before", "text_after", *_COUNTS)
_FORMATS: dict[str, tuple[Callable[[Fields, str], Format], tuple[str, ...]]] = {
    "const_string": (lambda fields, at: ConstFormat(_literal(fields, "value", at)), ("value",)),
    "json_schema": (_json, ("json_schema", "style", "any_order", "max_whitespace_cnt", "excludes")),
    "qwen_xml_parameter": (_qwen_xml, ("json_schema",)),
    "regex": (lambda fields, at: RegexFormat(_text(fields, "pattern", at), f"{at}/pattern"), ("pattern",)),
    "grammar": (lambda fields, at: LarkFormat(_text(fields, "grammar", at), f"{at}/grammar"), ("grammar",)),
    "json_string": (_string, ("content",)),
    "any_text": (_any_text, ("excludes", "max_chars", "max_tokens")),
    "sequence": (lambda fields, at: SequenceFormat(_elements(fields, at)), ("elements",)),
    "or": (_or, ("elements",)),
    "optional": (
        lambda fields, at: OptionalFormat(_format(fields.get("content"), f"{at}/content")),
        ("content",),
    ),
    "tag": (_tag, _TAG),
    "repeat": (_repeat, ("min", "max", "content")),
    "plus": (
        lambda fields, at: RepeatFormat(_format(fields.get("content"), f"{at}/content"), 1, None, at),
        ("content",),
    ),
    "star": (
        lambda fields, at: RepeatFormat(_format(fields.get("content"), f"{at}/content"), 0, None, at),
        ("content",),
    ),
    "dispatch": (_dispatch, ("rules", "loop", "excludes")),
    "triggered_tags": (_triggered, ("triggers", "tags", *_TRIGGERED)),
    "tags_with_separator": (_separated, ("tags", "separator", *_COUNTS)),
}
"""By type: the function that reads a format, and its fields besides `type`."""
_BY_TOKEN = {
    "token": "const_string",
    "exclude_token": "regex",
    "any_tokens": "any_text",
    "token_triggered_tags": "triggered_tags",
    "token_dispatch": "dispatch",
}
"""XGrammar's formats that name tokens -> the nearest ones that name texts."""
