"""Facts that are made quickly are frozen dataclasses like any other."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field

import pytest

from sluicegate import plugins as contract
from sluicegate.plugins import Decision, Piece, Request
from sluicegate.plugins.frozen import frozen_when_checked, quick


@dataclass(frozen=True, slots=True)
class Slow:
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)
    tail: tuple[int, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)
    tail: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Below(Quick):
    more: int = 7


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Checked:
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)
    tail: tuple[int, ...] = ()


def test_fields_are_set_as_the_dataclass_would_set_them() -> None:
    for given, named in ((("a",), {}), (("a", 4), {}), (("a",), {"tail": (1,)}), (("a", 4, [1], (2,)), {})):
        assert dataclasses.astuple(Quick(*given, **named)) == dataclasses.astuple(Slow(*given, **named))  # type: ignore[arg-type]

        assert dataclasses.astuple(Checked(*given, **named)) == dataclasses.astuple(Slow(*given, **named))  # type: ignore[arg-type]


def test_a_default_that_is_made_is_made_anew() -> None:
    assert Quick("a").parts is not Quick("a").parts
    assert Checked("a").parts is not Checked("a").parts


def test_what_the_type_checker_alone_keeps_frozen_is_a_fact_otherwise() -> None:
    made = Checked("a", parts=[1])
    assert dataclasses.replace(made, size=9) == Checked("a", 9, [1])
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert hash(Checked("a", tail=(1,), parts=())) == hash(Checked("a", tail=(1,), parts=()))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        made.unheard_of = 1  # type: ignore[attr-defined]


def test_a_contract_with_plug_ins_is_frozen_for_the_interpreter() -> None:
    """Nothing that a plug-in is handed can be changed under the gateway."""
    named = [getattr(contract, name) for name in contract.__all__]
    facts = [one for one in named if isinstance(one, type) and dataclasses.is_dataclass(one)]
    assert len(facts) > 20
    assert [one.__name__ for one in facts if one.__dataclass_params__.frozen and "__setattr__" not in vars(one)] == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("fact", [Quick("a"), Below("a"), Piece(0, "x"), Decision("admit", "x", "ok", 0.1)])
def test_nothing_can_be_set_or_deleted_afterwards(fact: object) -> None:
    name = dataclasses.fields(fact)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(fact, name, "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(fact, name)
    with pytest.raises((AttributeError, TypeError)):
        fact.unheard_of = 1  # type: ignore[attr-defined]


def test_it_is_of_its_class_and_of_no_other() -> None:
    assert type(Quick("a")) is Quick
    assert type(Below("a")) is Below
    assert Quick("a") == Quick("a")
    assert Quick("a") != Slow("a")
    assert repr(Quick("a")) == "Quick(name='a', size=3, parts=[], tail=())"


def test_what_is_missing_or_unknown_is_refused() -> None:
    with pytest.raises(TypeError, match="name"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Quick("a", colour=1)  # type: ignore[call-arg]


def test_a_subclass_has_its_own_fields_too() -> None:
    assert dataclasses.astuple(Below("a", more=8)) == ("a", 3, [], (), 8)


def test_copies_and_replacements_are_facts_again() -> None:
    made = Quick("a", parts=[1])
    assert dataclasses.replace(made, size=9) == Quick("a", 9, [1])
    assert copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made


def test_its_signature_is_the_dataclasss_own() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Slow).parameters)
    assert inspect.signature(Quick).parameters["size"].default == 3


def test_requests_are_made_so() -> None:
    """The class that matters most, with all its defaults."""
    made = Request(id="r", model="m", messages=())
    assert made == dataclasses.replace(made)
    assert made.metadata is not Request(id="r", model="m", messages=()).metadata
