"""The texts of a request are derived from its types: a field that nobody thought of is screened."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from sluicegate.gateway.upstream.request_body import body_of
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.plugins import (
    Constraint,
    Message,
    Request,
    Tool,
    ToolCall,
    beside_messages,
    in_two,
    texts_of,
    with_texts,
)
from sluicegate.plugins.contract.texts import NEVER_READ, Text, holds_text
from sluicegate.plugins.testing import make_request

_numbers = itertools.count()


def filled(hint: Any, marks: dict[str, str], where: str) -> Any:
    """Make a value of type `hint` with a mark wherever a text can be. `marks` takes the field of each."""
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        names = [field.name for field in dataclasses.fields(hint)]
        return hint(**{name: filled(hints[name], marks, f"{hint.__name__}.{name}") for name in names})
    if origin in (Union, UnionType):
        return filled(next(part for part in parts if part is not NoneType), marks, where)
    if origin is Literal:
        return parts[0]
    if origin in (tuple, frozenset):
        return origin((filled(parts[0], marks, where),))
    if origin is Mapping:
        return {filled(parts[0], marks, where): filled(parts[1], marks, where)}
    if hint in (int, float, bool):
        return hint(1)
    mark = f"mark{next(_numbers)}"
    marks[mark] = where
    return mark


def test_every_field_that_can_hold_text_is_read_unless_it_is_named_as_never_read() -> None:
    """For all fields of all types of a request, whatever fields there will be."""
    marks: dict[str, str] = {}
    request: Request = filled(Request, marks, "Request")
    request = dataclasses.replace(request, constraint=Constraint("json_object", {"a": "x"}, "n"))
    read = {text.text for text in texts_of(request)}
    unread = {where for mark, where in marks.items() if mark not in read and not where.startswith("Constraint.")}
    never = {f"{cls.__name__}.{name}" for cls, names in NEVER_READ.items() for name in names}
    assert unread == (never - {"Request.reuse"}) | {"Reuse.tags"}


def test_what_is_never_read_reaches_no_other_server() -> None:
    """Marked in every field; nothing of what no rail sees stands in the body of a request to an upstream."""
    marks: dict[str, str] = {}
    request: Request = filled(Request, marks, "Request")
    plain = dataclasses.replace(make_request().sampling, stop=("x",))
    request = dataclasses.replace(request, sampling=plain, constraint=None, parts=None, reasoning=False)
    body = repr(
        body_of(request, UpstreamModelSettings(url="https://far.example", model="theirs", dialect="vllm"), "far")
    )
    never = {f"{cls.__name__}.{name}" for cls, names in NEVER_READ.items() for name in names} | {"Reuse.tags"}
    assert not [where for mark, where in marks.items() if where in never and f"'{mark}'" in body]


def test_names_of_never_read_fields_are_fields() -> None:
    for cls, names in NEVER_READ.items():
        assert names <= {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize(
    ("hint", "holds"),
    [
        (int, False),
        (float | None, False),
        (Literal["a", "b"], False),
        (Mapping[int, float], False),
        (tuple[int, ...], False),
        (str, True),
        (str | None, True),
        (Any, True),
        (object, True),
        (tuple[str, ...], True),
        (Mapping[str, int], True),
        (Message, True),
        (bytes, True),
    ],
)
def test_what_a_type_can_hold(hint: Any, holds: bool) -> None:
    """What is not known to hold no text may hold one."""
    assert holds_text(hint) is holds


def told(request: Request) -> dict[str, str]:
    return {text.place: text.text for text in texts_of(request)}


def test_keywords_of_a_schema_are_nobodys_text_and_everything_else_is() -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string", "description": "told"}, "const": {"enum": ["object", 4111111111]}},
        "x-note": {"type": "not a type"},
        "required": ["type"],
    }
    found = told(make_request(constraint=Constraint("json_schema", schema)))
    value = "constraint.value"
    assert found == {
        "messages[0].content": "Hello",
        f"{value}.properties[0].(key)": "type",
        f"{value}.properties[0].description": "told",
        f"{value}.properties[1].(key)": "const",
        f"{value}.properties[1].enum[0]": "object",
        f"{value}.properties[1].enum[1]": "4111111111",
        f"{value}[2].(key)": "x-note",
        f"{value}[2].type": "not a type",
        f"{value}.required[0]": "type",
    }


def test_a_place_quotes_nothing_that_the_caller_wrote() -> None:
    request = make_request(tools=(Tool("f", "", {"properties": {"secret": {"description": "d", "weird": {"k": 1}}}}),))
    assert all("secret" not in place and "weird" not in place for place in told(request))


def test_escaped_arguments_are_read_as_what_they_say() -> None:
    call = ToolCall("1", "f", '{"a": "\\u0068i", "b": 2}')
    found = told(make_request().__class__("r", "m", (Message("assistant", "", tool_calls=(call,)),)))
    assert found["messages[0].tool_calls[0].arguments.(decoded)[0]"] == "hi"


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"not": value}
    return value


def test_what_is_nested_too_deep_cannot_be_read() -> None:
    assert "x" in told(make_request(constraint=Constraint("json_schema", nested(100)))).values()
    with pytest.raises(ValueError, match="nested deeper than"):
        texts_of(make_request(constraint=Constraint("json_schema", nested(800))))


def everything() -> Request:
    marks: dict[str, str] = {}
    schema = {"type": "object", "description": "d", "properties": {"p": {"examples": ["e", {"k": "v"}], "enum": ["z"]}}}
    request: Request = filled(Request, marks, "Request")
    return dataclasses.replace(
        request, constraint=Constraint("json_schema", schema), tools=(Tool("f", "g", schema),), parts=None
    )


def free(request: Request) -> Iterator[Text]:
    return (text for text in texts_of(request) if text.is_free)


def test_a_text_is_replaced_where_it_stands_and_nothing_else_changes() -> None:
    request = everything()
    for text in free(request):
        changed = with_texts(request, {text.path: "NEW"})
        before, after = told(request), told(changed)
        assert {place for place in before if before[place] != after[place]} == {text.place}
        assert with_texts(changed, {text.path: text.text}) == request


def test_a_text_that_must_stay_is_not_replaced() -> None:
    request = everything()
    for text in texts_of(request):
        if not text.is_free:
            with pytest.raises(ValueError, match="must stay as it is"):
                with_texts(request, {text.path: "NEW"})


def test_new_texts_are_told_apart_by_where_a_result_takes_them() -> None:
    request = make_request("a", tools=(Tool("f", "g"),))
    content, name, description = (
        next(text for text in texts_of(request) if text.text == said) for said in ("a", "f", "g")
    )
    messages, others = in_two([(content, "A"), (name, "F"), (description, "G")], request)
    assert messages == (Message("user", "A"),)
    assert others == {name.path: "F", description.path: "G"}
    assert in_two([(name, "F")], request)[0] is None


def test_what_a_rail_for_messages_misses_is_what_stands_beside_them() -> None:
    call = ToolCall("c", "f", "{}")
    request = make_request(tools=(Tool("f"),))
    request = dataclasses.replace(request, messages=(Message("assistant", "x", "ann", (call,)),))
    assert [text.text for text in beside_messages(request)] == ["ann", "c", "f", "f"]
