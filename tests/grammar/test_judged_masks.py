"""Masks of real schemas over a real vocabulary, judged as masks; the committed baseline says what they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import common
from benchmarks.judged_masks import BASELINE, Judge, Verdict, compared, numbered
from benchmarks.mask_trial import Levels, Trials
from benchmarks.masks import load
from sluicegate.grammar import GrammarOptions, LazyMatcher, TokenRejected, compile_json_schema, is_compiled
from sluicegate.plugins import Mask
from tests.grammar.grammar_checks import byte_vocabulary, tokens_of
from tests.grammar.test_matcher import SCHEMAS
from tests.reference.mask_by_trial import mask_by_trial

DATA, RANKS = common.DATA / "maskbench.jsonl.gz", common.DATA / "llama3" / "tokenizer.model"
SAMPLE = 16
TEXTS = ('{"a": 1, "abc": "b', '[{"a": [1, "x"]}, 12, "ab', '{"x": true, "b": {', '["a", "ab", "a', "-1")


interpreted = pytest.mark.skipif(
    is_compiled(), reason="the judge derives from classes of the grammar: not compiled ones"
)


@interpreted
@pytest.mark.parametrize("order", ["schema", "any"])
def test_the_quick_trial_is_the_slow_one(order: str) -> None:
    vocabulary = byte_vocabulary()
    levels, rng = Levels(vocabulary), np.random.default_rng(1)
    for schema in SCHEMAS:
        grammar = compile_json_schema(schema, vocabulary, options=GrammarOptions(property_order=order))  # type: ignore[arg-type]
        trials = Trials(levels, grammar._states)
        for text in TEXTS:
            matcher = grammar.matcher()
            for token in tokens_of(text, vocabulary, int(rng.integers(2))):
                try:
                    matcher.accept(token)
                except TokenRejected:
                    break
            assert np.array_equal(trials.row(matcher), mask_by_trial(matcher, vocabulary)), (schema, text)


@interpreted
def test_a_token_too_many_and_one_too_few_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = byte_vocabulary()
    judge = Judge(Levels(vocabulary), lambda text: tokens_of(text, vocabulary))
    record = {"id": "made", "schema": SCHEMAS[0], "tests": [{"valid": True, "data": {"a": 1, "abc": "ab"}}]}
    right, fill = judge.schema(record), LazyMatcher.fill_mask
    assert right.masks > 3
    assert not right.wrong

    def wrongly(matcher: LazyMatcher, row: Mask) -> bool:
        applied = fill(matcher, row)
        row[3] ^= 1 << 20  # the token of a letter
        return applied

    monkeypatch.setattr(LazyMatcher, "fill_mask", wrongly)
    wrong = judge.schema(record)
    assert len(wrong.wrong) == wrong.masks == right.masks
    assert wrong.digest != right.digest


def test_only_masks_that_changed_are_told_apart() -> None:
    found = {k: (f"s{k}", Verdict(digest)) for k, digest in enumerate(["aaaaaa", "bbbbbb", "------", "cccccc"])}
    assert compared(found, {"digests": ["aaaaaa", "000000", "dddddd", "------"]}) == ["s1"]


def test_the_baseline_holds_no_mask_that_is_wrong() -> None:
    known = json.loads(BASELINE.read_text("utf-8"))
    counts = known["groups"].values()
    assert sum(each["schemas"] for each in counts) == len(known["digests"]) > 5_000
    assert sum(each["masks"] for each in counts) > 30_000
    assert not any(each["wrong"] for each in counts)


@pytest.mark.skipif(
    not (DATA.exists() and RANKS.exists()), reason="the schemas and Llama 3's ranks are not in ../shared"
)
def test_masks_of_a_sample_are_those_of_the_baseline() -> None:
    """Where they changed on purpose: `python -m benchmarks.judged_masks --limit 0 --write`, which tries every token."""
    vocabulary, encode = load(RANKS)
    known = json.loads(BASELINE.read_text("utf-8"))
    judge = Judge(Levels(vocabulary), encode, known["places"])
    sample = numbered(DATA)[:SAMPLE]
    found = {
        k: (record["id"], judge.schema(record, tried=number < 3 and not is_compiled()))
        for number, (k, record) in enumerate(sample)
    }
    assert not [told for _, verdict in found.values() for told in verdict.wrong]
    assert compared(found, known) == []
