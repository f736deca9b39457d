"""The search for slow calls draws all notations, changes real grammars into others, and sees what is wrong."""

from __future__ import annotations

import json
import random
from typing import cast

import pytest

from benchmarks import bounded, changed_grammars, random_grammars
from benchmarks.grammar_samples import SAMPLES
from sluicegate.grammar import GrammarError, LazyGrammar, compile_lark
from tests.grammar.grammar_checks import byte_vocabulary

VALUE = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"enum": [1, 2]}}}}


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_all_notations_are_drawn_and_most_real_grammars_stay_grammars() -> None:
    sources = bounded.Sources([(VALUE, ('{"a": "x"}',))])
    kinds = [sources.drawn(random.Random(seed), bounded.KINDS["all"]).kind for seed in range(40)]
    assert set(kinds) == set(bounded.COMPILERS)
    for notation in ("lark", "gbnf"):
        texts = [each.grammar for each in SAMPLES if changed_grammars.is_gbnf(each.grammar) == (notation == "gbnf")]
        changed = [changed_grammars.grammar(random.Random(seed), texts[seed % len(texts)]) for seed in range(12)]
        assert set(changed) - set(texts)
        assert sum(_compiles(text) for text in changed) > 6


def _compiles(text: str) -> bool:
    try:
        compile_lark(text, byte_vocabulary())
    except GrammarError:
        return False
    return True


def test_parts_of_real_schemas_are_exchanged() -> None:
    changed = {json.dumps(changed_grammars.schema(random.Random(seed), VALUE, [VALUE] * 2)) for seed in range(20)}
    assert len(changed - {json.dumps(VALUE)}) > 10


def test_tags_of_all_formats_are_drawn() -> None:
    drawn = [random_grammars.Tags()(random.Random(seed)) for seed in range(150)]
    found = json.dumps(drawn)
    for kind in ("dispatch", "repeat", "star", "triggered_tags", "tags_with_separator", "json_string", "any_text"):
        assert f'"type": "{kind}"' in found


@pytest.mark.parametrize(("error", "wrong"), [(KeyError("x"), "KeyError"), (GrammarError("too much"), "names no rule")])
def test_what_no_call_may_end_with_is_found(error: Exception, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def matcher(self) -> Failing:
            return self

        def fill_mask(self, _: object) -> bool:
            return True

        def forced_tokens(self) -> list[int]:
            raise error

    monkeypatch.setitem(bounded.COMPILERS, "lark", lambda *_: cast(LazyGrammar, Failing()))
    found = bounded.worst(bounded.Drawn("lark", ""), byte_vocabulary(), encode, 0)
    assert found is not None
    assert (found.call, found.wrong[: len(wrong)]) == ("forced_tokens", wrong)


def test_the_text_of_the_real_grammar_leads() -> None:
    text = "(1+2)*(3-x)"
    calls = bounded.calls_of(bounded.Drawn("lark", SAMPLES[0].grammar, text), byte_vocabulary(), encode, 3)
    assert calls is not None
    assert any(call.text == text[:4] for call in calls)
