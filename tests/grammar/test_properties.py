"""Random schemas: masks lead to valid values only, always have a way to the end, and let every valid value through."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema_rs
import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sluicegate.grammar import GrammarError, GrammarOptions, LazyGrammar, compile_json_schema
from tests.fuzz import made
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

FREE = GrammarOptions(whitespace=r"[ \t\r\n]{0,2}", property_order="any")
_EXPONENT = re.compile(r"\de[-+]")
"""How Python spells large numbers; between bounds they have no exponent here."""
_MOST_TOKENS = 2_000
"""An answer that was begun at random is finished within so many tokens more."""
rarely = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
seeds = st.integers(0, 2**32)


def compiled_of(schema: Any) -> LazyGrammar:
    """Refusals are typed, and tell nothing here."""
    try:
        return compile_json_schema(schema, byte_vocabulary(), options=FREE)
    except GrammarError:
        assume(False)
        raise


def judge_of(schema: Any) -> Any:
    """Return a validator of the schema. `format` annotates or asserts as validators please, so schemas that have it are
    left to other tests."""
    assume('"format"' not in json.dumps(schema))
    try:
        return jsonschema_rs.validator_for(schema)
    except ValueError:
        assume(False)
        raise


def finished(compiled: LazyGrammar, pick: random.Random, steps: int) -> str:
    """Begun at random under the masks, then ended; no mask on the way is empty."""
    vocabulary, matcher, text = byte_vocabulary(), compiled.matcher(), b""
    for _ in range(steps):
        tokens = allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids)
        assert tokens or matcher.can_stop, f"dead end after {text!r}"
        if not tokens:
            break
        telling = [token for token in tokens if vocabulary.words[token][:1] in b'{}[]":,ab01\\']
        token = pick.choice(sorted(telling if telling and pick.random() < 0.7 else tokens))
        matcher.accept(token)
        text += vocabulary.words[token]
    end = matcher.shortest_completion()
    assert end is not None, f"no way to the end after {text!r}"
    assert len(end.tokens) <= _MOST_TOKENS
    for token in end.tokens:
        assert token in allowed(matcher, vocabulary)
        matcher.accept(token)
    assert matcher.can_stop
    return (text + end.text).decode()


def shuffled(value: Any, pick: random.Random) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name], pick) for name in pick.sample(list(value), len(value))}
    return [shuffled(item, pick) for item in value] if isinstance(value, list) else value


@rarely
@given(seeds)
def test_wherever_masks_lead_there_is_a_way_to_a_valid_value(seed: int) -> None:
    pick = random.Random(seed)
    schema = made.schema(pick)
    compiled, judge = compiled_of(schema), judge_of(schema)
    for steps in (3, 10, 30):
        text = finished(compiled, pick, steps)
        assert judge.is_valid(json.loads(text)), text


@rarely
@given(seeds)
def test_every_valid_value_gets_through_with_its_names_in_any_order(seed: int) -> None:
    """The values are made without a look at the schema, and judged by an independent validator; or are answers."""
    pick = random.Random(seed)
    schema = made.schema(pick)
    compiled, judge = compiled_of(schema), judge_of(schema)
    values = [made.value(pick) for _ in range(40)] + [json.loads(finished(compiled, pick, 20)) for _ in range(2)]
    for value in values:
        valid, text = judge.is_valid(value), json.dumps(shuffled(value, pick), separators=(",", ":"))
        if _EXPONENT.search(text) is None:
            assert accepts(compiled, text, pick.randrange(2)) == valid, text


@rarely
@given(seeds)
def test_masks_are_what_trying_every_token_gives(seed: int) -> None:
    """The slow reference tries each token of the vocabulary, byte by byte."""
    pick, vocabulary = random.Random(seed), byte_vocabulary()
    compiled = compiled_of(made.schema(pick))
    matcher, row = compiled.matcher(), np.zeros(vocabulary.row_words, np.int32)
    for _ in range(12):
        matcher.fill_mask(row)
        assert np.array_equal(row, mask_by_trial(matcher, vocabulary))
        tokens = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
        if not tokens:
            break
        matcher.accept(pick.choice(tokens))
