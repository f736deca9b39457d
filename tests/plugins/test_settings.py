"""The one reader of settings: what it accepts, and how it words what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from sluicegate.plugins import ConfigurationError, Within, check_names, read_settings, wrong_value

Action = Literal["redact", "block"]


@dataclass(frozen=True, slots=True)
class Part:
    size: int = 1
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Example:
    name: str
    score: Annotated[float, Within(0, 1)] = 0.5
    threads: int = 2
    ratio: Annotated[float, Within(above=0, below=2)] | None = None
    shows: bool = True
    action: Action = "redact"
    labels: tuple[str, ...] = ()
    actions: Mapping[str, Action] = field(default_factory=dict)
    slots: Mapping[Literal["screen", "moderate"], Part] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    more: Part = Part()
    free: Any = None

    def __post_init__(self) -> None:
        if self.threads > 8 and not self.labels:
            raise ValueError("threads is above 8, which needs labels; name some or lower it")


def error_message(table: object, where: str = "stages.moderate.example") -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(Example, table, where)
    return caught.value.message


def test_what_a_table_leaves_out_has_its_default() -> None:
    """A whole table of every kind is read as well, lists as tuples."""
    assert read_settings(Example, {"name": "a"}, "x") == Example("a")
    given = {
        "name": "a",
        "score": 1,
        "threads": 3.0,
        "ratio": 1.5,
        "labels": ["l"],
        "actions": {"l": "block"},
        "slots": {"screen": {"size": 4}},
        "parts": [{"size": 2}, Part(3)],
        "more": {},
        "free": {"any": ["thing"]},
    }
    found = read_settings(Example, given, "x")
    assert found.score == 1.0
    assert type(found.score) is float
    assert type(found.threads) is int
    assert (found.labels, found.parts, found.slots) == (("l",), (Part(2), Part(3)), {"screen": Part(4)})
    assert found.free == {"any": ["thing"]}


def test_none_is_the_absence_of_an_optional_value() -> None:
    assert read_settings(Example, {"name": "a", "ratio": None}, "x").ratio is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nam": "b"}, "has no 'nam'; did you mean 'name'? Valid names: name, score, threads"),
        ({"zzzz": 1}, "has no 'zzzz'; valid names: name, score"),
        ({"name": 5}, "name must be a string, found 5"),
        ({"score": 7}, "score must be a number from 0 to 1, found 7"),
        ({"score": float("nan")}, "score must be a number from 0 to 1, found nan"),
        ({"score": True}, "score must be a number from 0 to 1, found True"),
        ({"score": 10**400}, "score must be a number from 0 to 1, found 1000"),
        ({"threads": 2.5}, "threads must be a whole number from 0, found 2.5"),
        ({"threads": -1}, "threads must be a whole number from 0, found -1"),
        ({"threads": float("inf")}, "threads must be a whole number from 0 to 1000000000000000, found inf"),
        ({"threads": 10**400}, "threads must be a whole number from 0 to 1000000000000000, found 1000"),
        ({"ratio": -(10**400)}, "ratio must be a number above 0 below 2, found -1000"),
        ({"ratio": 0}, "ratio must be a number above 0 below 2, found 0"),
        ({"ratio": 2}, "ratio must be a number above 0 below 2, found 2"),
        ({"shows": 1}, "shows must be true or false, found 1"),
        ({"action": "drop"}, "action must be one of redact, block, found 'drop'"),
        ({"labels": "pii"}, "labels must be a list of strings, found 'pii'"),
        ({"labels": ["a", 2]}, "labels.2 must be a string, found 2"),
        ({"actions": {"a b": "drop"}}, "actions.\"a b\" must be one of redact, block, found 'drop'"),
        ({"actions": []}, "actions must be a table, found []"),
        ({"parts": {}}, "parts must be a list of tables, found {}"),
        ({"threads": 9}, "threads is above 8, which needs labels; name some or lower it"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_expected(change: Mapping[str, Any], message: str) -> None:
    """Where, what is expected, what was found."""
    assert error_message({"name": "a", **change}).startswith(f"[stages.moderate.example] {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": 3}, "[x.more] must be a table, found 3"),
        ({"more": {"siz": 3}}, "[x.more] has no 'siz'; did you mean 'size'?"),
        ({"slots": {"scren": {}}}, "[x.slots] has no 'scren'; did you mean 'screen'?"),
        ({"slots": {"screen": {"size": "s"}}}, "[x.slots.screen] size must be a whole number from 0, found 's'"),
        ({"parts": [{}, {"size": "s"}]}, "[x.parts.2] size must be a whole number from 0, found 's'"),
        ({"more": {"secret": 12345}}, "[x.more] secret must be a string, found a value of type int"),
    ],
)
def test_a_table_below_is_named_by_its_path(change: Mapping[str, Any], message: str) -> None:
    assert error_message({"name": "a", **change}, "x").startswith(message)


def test_a_required_setting_must_be_there() -> None:
    assert error_message({}, "x").startswith("[x] needs 'name'; valid names: name, score")
    assert error_message([], "x") == "[x] must be a table, found []"


def test_the_top_of_the_configuration_has_a_name_in_words() -> None:
    assert error_message({"nam": "b"}, "").startswith("the configuration has no 'nam'; did you mean 'name'?")
    assert error_message({"name": 1}, "").startswith("name must be a string")


def test_a_long_value_is_not_repeated_whole() -> None:
    assert len(error_message({"name": "a", "score": "x" * 10_000})) < 400


def test_a_stage_words_its_own_rules_alike() -> None:
    """Names that are only known at run time, and values of the right type that are wrong."""
    with pytest.raises(
        ConfigurationError, match=r"\[a\.b\] has no 'pi'; did you mean 'pii'\? Valid names: pii, secrets"
    ):
        check_names(["pii", "pi"], ["pii", "secrets"], "a.b")
    with pytest.raises(ConfigurationError, match=r"\[a\.b\] has no 1; valid names: none"):
        check_names([1], [], "a.b")
    error = wrong_value("a.b", "path", "a file that can be read", "/none")
    assert error.message == "[a.b] path must be a file that can be read, found '/none'"
