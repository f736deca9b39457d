"""The stage of slot `constrain`."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sluicegate.grammar
from sluicegate.grammar import GrammarLimit, InvalidGrammar, Unsatisfiable
from sluicegate.grammar.constrainer import GrammarConstrainer
from sluicegate.grammar.limits import GrammarLimits
from sluicegate.grammar.stage import register
from sluicegate.plugins import Constraint
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.registry import Registry
from tests.grammar.test_vocabulary import bpe


def build(settings: dict[str, Any]) -> GrammarConstrainer:
    registry = Registry()
    registry.register_from("grammar", register)
    made: GrammarConstrainer = registry.build("constrain", "grammar", settings)
    return made


@pytest.fixture(scope="module")
def model() -> Any:
    tokenizer = bpe()
    return SimpleNamespace(
        name="m",
        version="1",
        context_length=64,
        vocab_size=1024,
        eos_token_ids=(tokenizer.eos_token_id,),
        tokenizer=tokenizer,
    )


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("json_schema", {"type": "integer"}),
        Constraint("json_object"),
        Constraint("regex", "[ab]+"),
        Constraint("choice", ("yes", "no")),
        Constraint("lark", 'start: "a"+'),
        Constraint("json_schema", {"type": "array"}, options={"whitespace": "compact", "property_order": "any"}),
    ],
)
async def test_every_kind_of_constraint_is_compiled(constraint: Constraint, model: Any) -> None:
    stage = build({})
    grammar = await stage.compile(constraint, model)
    assert not grammar.matcher().is_finished
    await stage.close()


async def test_the_same_constraint_is_compiled_once(model: Any) -> None:
    stage = build({"cache_entries": 2})
    first, second = await asyncio.gather(*(stage.compile(Constraint("regex", "a+"), model) for _ in range(2)))
    assert first is second
    for pattern in ("b+", "c+"):
        await stage.compile(Constraint("regex", pattern), model)
    assert await stage.compile(Constraint("regex", "a+"), model) is not first
    await stage.close()


async def test_property_order_is_part_of_a_schema(model: Any) -> None:
    stage = build({})
    one = await stage.compile(Constraint("json_schema", {"properties": {"a": {}, "b": {}}}), model)
    other = await stage.compile(Constraint("json_schema", {"properties": {"b": {}, "a": {}}}), model)
    assert one is not other
    await stage.close()


async def test_errors_reach_the_caller_and_are_not_kept(model: Any) -> None:
    stage = build({})
    for _ in range(2):
        with pytest.raises(Unsatisfiable):
            await stage.compile(Constraint("json_schema", False), model)
    with pytest.raises(InvalidGrammar, match="property_order"):
        await stage.compile(Constraint("json_object", options={"order": 1}), model)
    await stage.close()


def test_settings_are_checked() -> None:
    for settings in (
        {"thread": 1},
        {"threads": 0},
        {"limits": {"dept": 1}},
        {"options": {"order": "any"}},
        {"options": {"limits": {"dept": 3}}},
    ):
        with pytest.raises(ConfigurationError):
            build(settings)


DEEP: Any = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}


@pytest.mark.parametrize(
    ("limit", "small", "constraint"),
    [
        ("depth", 2, Constraint("json_schema", DEEP)),
        ("containers", 2, Constraint("json_schema", DEEP)),
        ("characters", 20, Constraint("json_schema", json.dumps(DEEP))),
        ("string_states", 10, Constraint("json_schema", {"type": "string", "pattern": "^[a-z]{40}$"})),
    ],
)
async def test_a_limit_that_an_error_names_can_be_raised_where_it_says(
    limit: str, small: int, constraint: Constraint, model: Any
) -> None:
    stage = build({"limits": {limit: small}})
    with pytest.raises(GrammarLimit, match=rf"raise limits\.{limit} in \[stages\.constrain\.grammar\]"):
        await stage.compile(constraint, model)
    await stage.close()
    stage = build({"limits": {limit: 100_000}})
    await stage.compile(constraint, model)
    await stage.close()


def test_every_limit_that_an_error_names_is_a_setting() -> None:
    folder = Path(sluicegate.grammar.__file__).parent
    text = re.sub(r'"\s*f?"', "", "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))))
    named = re.findall(r"raise limits\.(\w+)( in \[stages\.constrain\.grammar\])?", text)
    assert {name for name, _ in named} <= {field.name for field in fields(GrammarLimits)}
    assert all(place for _, place in named)


async def test_a_blocklist_of_the_stage_holds_for_every_request_and_can_only_be_added_to(model: Any) -> None:
    stage = build({"blocklist": ["abc"]})
    assert stage.unconstrained == Constraint("text")
    for constraint in (
        Constraint("text"),
        Constraint("regex", ".*"),
        Constraint("text", options={"blocklist": ["zz"]}),
    ):
        matcher = (await stage.compile(constraint, model)).matcher()
        row = np.zeros(32, np.int32)
        tokens = model.tokenizer.encode("ab", add_special_tokens=False)
        for token in tokens:
            matcher.accept(token)
        matcher.fill_mask(row)
        c = model.tokenizer.encode("c", add_special_tokens=False)[0]
        assert not row[c >> 5] >> (c & 31) & 1
    assert build({}).unconstrained is None
    with pytest.raises(ConfigurationError):
        build({"blocklist": [""]})
    await stage.close()
