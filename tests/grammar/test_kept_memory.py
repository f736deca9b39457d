"""What is kept of grammars is bounded by its memory: callers decide how large they are."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import (
    InvalidGrammar,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_regex,
    is_compiled,
    kept_grammars,
)
from sluicegate.grammar.automata.byte_level.string_bodies import StringTable
from sluicegate.grammar.budget import remembered
from sluicegate.grammar.budget.room import room
from sluicegate.grammar.parsing import frames
from sluicegate.grammar.schema import constants, strings
from sluicegate.grammar.store.footprint import footprint
from sluicegate.plugins import Constraint
from tests.grammar.grammar_checks import byte_vocabulary
from tests.grammar.test_stage import build
from tests.grammar.test_stage import model as model
from tests.waiting import soon


def described(number: int) -> Constraint:
    return Constraint("json_schema", {"type": "string", "description": f"{number}" + "d" * 4_000_000})


async def test_large_grammars_are_kept_up_to_so_many_bytes(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = build({"cache_dir": "", "kept_bytes": 10_000_000})
    made = [await stage.compile(described(number), model) for number in range(3)]
    assert [await stage.compile(described(number), model) is made[number] for number in (2, 1, 0)] == [
        True,
        True,
        False,
    ]
    await stage.close()


async def test_one_grammar_is_kept_however_large_it_is(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = build({"cache_dir": "", "kept_bytes": 1})
    made = await stage.compile(described(0), model)
    assert await stage.compile(described(0), model) is made
    await stage.close()


async def test_dropped_grammars_are_collected_before_they_fill_the_memory(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a full collection, which the collector itself makes after so many objects only."""
    monkeypatch.setattr(kept_grammars, "LEAST_GARBAGE", 0)
    stage = build({"cache_dir": "", "kept_bytes": 10_000_000})
    gc.disable()
    try:
        made = [weakref.ref(await stage.compile(described(number), model)) for number in range(8)]
    finally:
        gc.enable()
    assert sum(one() is not None for one in made) <= 5  # kept, and dropped since
    await stage.close()


class Schema(dict[str, Any]):
    """A dictionary that tells when it is gone."""


async def test_nothing_is_kept_of_a_grammar_that_cannot_be_compiled(model: Any) -> None:
    stage = build({"cache_dir": ""})
    schema = Schema({"type": "strng"})
    gone = weakref.ref(schema)
    with pytest.raises(InvalidGrammar):
        await stage.compile(Constraint("json_schema", schema), model)
    del schema

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    await soon(is_gone)  # the loop and the thread let go of it when they go on
    await stage.close()


async def test_what_is_remembered_of_texts_is_forgotten_after_some_work(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "FORGET_S", 0.0)
    stage = build({"cache_dir": ""})
    await stage.compile(Constraint("json_schema", {"enum": ["x" * 100_000]}), model)
    await stage.compile(Constraint("json_schema", {"pattern": "^[a-z]{1,500}$", "type": "string"}), model)
    assert (strings.pattern.cache_info().currsize, constants.constant_set.cache_info().currsize) == (0, 0)
    await stage.close()


def test_little_work_forgets_nothing() -> None:
    strings.pattern("^few$", 100)
    remembered.Forgetting().worked(0.9 * remembered.FORGET_S)
    assert strings.pattern.cache_info().currsize > 0


def test_a_footprint_counts_views_once_and_nothing_that_is_shared() -> None:
    table = np.zeros(100_000, np.int8)
    shared = [bytes(10_000)]
    found, whole = footprint([table[:5], table[5:], shared, lambda: table], (shared,), 1_000)
    assert 100_000 < found < 102_000
    assert whole
    assert footprint([bytes(10) for _ in range(100)], (), 50)[1] is False


def test_a_footprint_holds_the_tables_of_a_grammar_and_not_its_vocabulary() -> None:
    vocabulary = byte_vocabulary()
    small = compile_regex("[ab]", vocabulary)
    large = compile_lark('start: "' + "x" * 5_000 + '"', vocabulary)
    assert footprint(small, (vocabulary,), 20_000)[0] < 200_000
    assert footprint(large, (vocabulary,), 100_000)[0] > 1_000_000


def tables() -> int:
    """Return how many tables of strings there are, behind a collection."""
    remembered.remembered.forget()
    gc.collect()
    return sum(type(one) is StringTable for one in gc.get_objects())


def test_a_vocabulary_keeps_no_lexeme_of_a_grammar_that_is_gone() -> None:
    vocabulary = byte_vocabulary()
    row = np.zeros(vocabulary.row_words, np.int32)

    def use(number: int) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": f"^{number}[a-z]{{9}}$"}}}
        matcher = compile_json_schema({**schema, "required": ["a"]}, vocabulary).matcher()
        for byte in b'{"a":"':
            matcher.fill_mask(row)
            matcher.accept(byte)

    use(0)
    before = tables()
    for number in range(1, 9):
        use(number)
    assert tables() <= before + 1


async def test_what_matchers_add_to_a_grammar_counts_where_it_is_kept(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_grammars, "_USES", 0)
    stage = build({"cache_dir": ""})
    constraint = Constraint("lark", "start: /[a-z]+/ /[0-9]+/")
    grammar = await stage.compile(constraint, model)
    await stage.compile(constraint, model)
    before = stage._grammars.bytes
    matcher, row = grammar.matcher(), np.zeros(grammar.vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    await stage.compile(constraint, model)
    assert stage._grammars.bytes > before + 100_000  # the tables for masks
    await stage.close()


def test_room_is_zeros_that_can_be_written_to() -> None:
    table = room((3, 5), np.int64)
    assert (table.shape, table.dtype, table.any()) == ((3, 5), np.int64, False)
    table[:] = 7
    assert table.sum() == 105


_CHURN = """
import gc, resource
from collections import deque
from pathlib import Path
import numpy as np
from sluicegate.grammar import compile_lark
from sluicegate.grammar.budget.remembered import remembered
from tests.grammar.grammar_checks import byte_vocabulary

vocabulary = byte_vocabulary()
row = np.zeros(vocabulary.row_words, np.int32)
kept = deque(maxlen=60)

def use(number):
    grammar = compile_lark(f'start: "a{number}" ("," /[a-z]+{number}/)*', vocabulary)
    grammar.matcher().fill_mask(row)
    kept.append(grammar)
    if number % 20 == 0:
        remembered.forget()
        gc.collect()

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

for number in range(60):
    use(number)
before = resident()
for number in range(60, 300):
    use(number)
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_grammars_that_were_used_take_little_after_many_others() -> None:
    """Sixty are kept. Room for the tables of each is 6 MB, of which some pages are written to; room that others left
    is all written to."""
    found = subprocess.run([sys.executable, "-c", _CHURN], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 15_000_000


async def test_a_table_that_a_lexeme_makes_when_it_is_asked_counts(model: Any) -> None:
    """A kilobyte for each state, of an expression between tags that no mask had needed before."""
    form = {"type": "sequence", "elements": [{"type": "regex", "pattern": "[a-z]{3,2000}x"}, {"type": "any_text"}]}
    stage = build({"cache_dir": ""})
    grammar = await stage.compile(Constraint("structural_tag", {"type": "structural_tag", "format": form}), model)
    before = grammar.learned_bytes
    grammar.matcher().fill_mask(np.zeros(grammar.vocabulary.row_words, np.int32))
    assert grammar.learned_bytes - before > 1_500_000
    await stage.close()


_AMBIGUOUS = """
start: (x | /"[^"]*"/)? | y /.*/ x (":")? y | ("a" | z | v)
x: z | /[a-f0-9]{200}/ z y (/(a|b)*a(a|b){9}/ | v | y | /[0-9]+/) (z | "," | /[a-z]+/)
y: (start)?
z: /.*/ | ((v | y | x | /[a-z]{1,20}/) | v | (x | y) | (x)*)?
v: (start z v | (/[^<&]+/ | start | v | x) | /(.|\\n)+/ v " " | y y)+ | (y z) | (start | start)*
"""


def _many_words() -> Vocabulary:
    letters = 'ab01[]"<. '
    words = [bytes([byte]) for byte in range(256)]
    words += ["".join(each).encode() for size in (2, 3, 4) for each in itertools.product(letters, repeat=size)]
    return Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])


def test_what_a_mask_has_made_of_rules_counts_at_once() -> None:
    """It counted with the next mask, and then without exits and frames: a grammar that had made 158 MB counted as half
    a megabyte, and with it a bound of 64 MiB kept 390 MB."""
    vocabulary = _many_words()
    grammar = compile_lark(_AMBIGUOUS, vocabulary)
    before, learned = footprint(grammar, (vocabulary,), 10**8)[0], grammar.learned_bytes
    matcher, mask = grammar.matcher(), np.zeros(vocabulary.row_words, np.int32)
    matcher.bound(60)
    for _ in range(2):
        matcher.fill_mask(mask)
        grown = footprint(grammar, (vocabulary,), 10**8)[0] - before
        assert grown > 200_000
        assert grammar.learned_bytes - learned > 0.7 * grown
        matcher.accept(ord("a"))


def test_frames_are_forgotten_past_their_bytes_and_masks_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = _many_words()

    def masks() -> list[bytes]:
        matcher, found = compile_lark(_AMBIGUOUS, vocabulary).matcher(), []
        matcher.bound(60)
        for byte in b"a1[ab":
            mask = np.zeros(vocabulary.row_words, np.int32)
            matcher.fill_mask(mask)
            found.append(mask.tobytes())
            matcher.accept(byte)
        return found

    expected = masks()
    forgotten: list[int] = []
    made = frames.ParseFrames._new

    def new(self: frames.ParseFrames, items: Any) -> Any:
        forgotten.append(len(self._known))
        return made(self, items)

    monkeypatch.setattr(frames, "_KEPT_BYTES", 10_000)
    if not is_compiled():
        monkeypatch.setattr(frames.ParseFrames, "_new", new)
    assert masks() == expected
    assert is_compiled() or max(forgotten) < 60


def test_a_footprint_looks_at_large_tables_before_what_is_small_and_far() -> None:
    small = [[[bytes(10)] for _ in range(200)] for _ in range(200)]
    found, whole = footprint([[np.zeros(1_000_000, np.int8)], small], (), 1_000)
    assert found > 1_000_000
    assert not whole


async def test_a_small_bound_does_not_ask_for_a_collection_with_every_grammar(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stops everything."""
    asked: list[int] = []
    monkeypatch.setattr(kept_grammars, "give_back", lambda: asked.append(1))
    stage = build({"cache_dir": "", "kept_bytes": 1_000_000})
    for number in range(20):  # 80 MB
        await stage.compile(described(number), model)
    assert len(asked) == 1
    await stage.close()
