"""The model that finds needles: its texts hold what is asked, and from training to the curve everything runs."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from benchmarks import long_context
from benchmarks.long_context import cases_of
from tests.gateway.conftest import running
from training import needles


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hardly trained: two steps."""
    made = tmp_path_factory.mktemp("needles")
    needles.main([str(made), "--steps", "2", "--width", "32", "--layers", "1", "--no-compile"])
    return made


def test_every_question_of_a_text_is_answered_by_its_facts() -> None:
    """Directly, or by joining two or three of them."""
    rng = random.Random(5)
    for _ in range(200):
        found = needles.told(rng, rng.randint(2, 9))
        text = " ".join(found.facts)
        assert len({question for question, _ in found.asked}) == len(found.asked)
        for question, answer in found.asked:
            name = re.findall(r"(?:of|room|the) (\w+)(?: locker)?\?", question)[-1]
            assert name in text
            assert re.search(rf"\b{answer}\b", text)


def test_words_of_the_cases_are_a_token_each_and_other_text_comes_back_whole() -> None:
    tokenizer = needles.make_tokenizer()
    for case in cases_of([120], 2, 3, 12.0):
        text = str(case.messages[0]["content"])
        ids = needles.ids_of(tokenizer, text)
        assert tokenizer.decode(ids) == text
        assert len(ids) <= len(re.findall(r" ?[A-Za-z]+|\d{2}|.", text, re.DOTALL))
    strange = "naïve 😀 <b>x</b> 123 \u202e"
    assert tokenizer.decode(needles.ids_of(tokenizer, strange)) == strange


def test_a_batch_asks_what_the_gateway_asks_and_weighs_the_values() -> None:
    tokenizer = needles.make_tokenizer()
    batch = needles.batch_at(tokenizer, 1, 72, 0)
    assert batch.ids.shape[1] == 72 + needles.ASKED
    assert batch.ids.equal(needles.batch_at(tokenizer, 1, 72, 0).ids)
    said = tokenizer.decode(batch.ids[0])
    assert '\n{"answer":"' in said
    values = batch.targets[(batch.weights == 1.0) & (batch.targets >= 0)]
    assert not set(tokenizer.convert_ids_to_tokens(values.tolist())) & {'"', "}", needles.END}
    assert values.numel() > 100


def test_texts_grow_while_the_budget_is_spent() -> None:
    lengths = [needles.stage(share / 100) for share in range(101)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (72, needles.LONGEST)


def test_the_curve_is_measured_through_the_gateway(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that hardly learned answers under the masks, mostly wrong, and every case is counted."""
    with running({"stages": {"generate": {"engine": {"models": [str(folder)]}}}}) as gateway:
        long_context.main(["--url", gateway.url, "--lengths", "64,256", "--limit", "1", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(row["kind"], row["n"], row["not_asked"]) for row in found["rows"]] == [
        (kind, len(long_context.DEPTHS), 0) for kind in long_context.KINDS for _ in range(2)
    ]
    assert all(row["low"] <= row["value"] <= row["high"] for row in found["rows"])
    assert found["rows"][1]["tokens"] > 2 * found["rows"][0]["tokens"]
