"""Work of calls that took longer than they were charged for: what is charged is at least the work that is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.grammar import (
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
    is_compiled,
)
from sluicegate.grammar.automata import CharDfa, string_table
from sluicegate.grammar.automata.tables.table import Table
from sluicegate.grammar.budget import meter
from sluicegate.grammar.budget.meter import Allowance
from sluicegate.grammar.budget.meter import allowed as metered
from sluicegate.grammar.completion import search
from sluicegate.grammar.completion.new_values import value_of
from sluicegate.grammar.completion.outright import Outright
from sluicegate.grammar.json.arrays.listed import ListedState
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import ObjectProgress
from sluicegate.grammar.json.plans import Plans
from sluicegate.grammar.lexemes.remaining import SharedWords
from sluicegate.grammar.matching.state import ParserStates
from sluicegate.grammar.parsing.parser import ParserReading
from sluicegate.grammar.reading.array_items import ArrayItems
from sluicegate.grammar.reading.reading import Run
from tests.grammar.grammar_checks import allowed, byte_vocabulary

FEW = {"anyOf": [{"enum": [True, 3, "c"]}, {"type": "boolean"}]}
SET = {"type": "array", "uniqueItems": True, "items": FEW, "minItems": 1, "maxItems": 4}
SETS = {**SET, "items": SET}
MEMBERS = {
    "type": "object",
    "properties": {
        "e": {"enum": ["a", 2.5, [1], 1, "longer text"]},
        "b": {"type": "boolean"},
        "n": {"anyOf": [{"enum": [[1], "a", {"k": 1}, "b", 3, {}]}, {"type": "boolean"}]},
    },
    "additionalProperties": False,
}


def charges_of(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, work: Callable[[Any, Any], float]
) -> list[tuple[float, float]]:
    """Note for each call of `owner.name` what it was charged, and the work that it did by its arguments and result."""
    if is_compiled():
        pytest.skip("calls between compiled methods cannot be watched; what they charge is written in the same sources")
    noted: list[tuple[float, float]] = []
    call = getattr(owner, name)

    def counted(*given: Any) -> Any:
        before = meter.left()
        found = call(*given)
        noted.append((before - meter.left(), work(given, found)))
        return found

    monkeypatch.setattr(owner, name, counted)
    return noted


def too_little(calls: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the calls that were charged less than their work; those outside of any allowance are not charged."""
    return [(charges, work) for charges, work in calls if charges < work - 1e-6]


def _finished(item: Any, begun: bytes = b"[") -> None:
    schema = {"type": "array", "uniqueItems": True, "items": item, "minItems": 40}
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    for byte in begun:
        matcher.accept(byte)
    matcher.shortest_completion()


def test_arrays_of_few_unique_values_are_charged_for_what_they_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of sets: each place of a completion has values of its own."""
    listed = charges_of(monkeypatch, ListedState, "_find_offered", lambda _, found: len(found) / 6)
    _finished(SETS)
    assert sum(work for _, work in listed) > 5
    assert not too_little(listed)


def test_many_readings_are_charged_where_they_are_made_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = charges_of(monkeypatch, ParserStates, "intern", lambda given, _: len(given[1]) if len(given[1]) > 4 else 0)
    _finished(SETS)
    assert sum(work for _, work in joined if work) > 5
    assert not too_little(joined)


def test_ways_to_give_a_name_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = charges_of(monkeypatch, ObjectProgress, "ways", lambda *_: 1)
    _finished(MEMBERS, b'[{"')
    assert len(ways) > 5
    assert not too_little(ways)


def test_values_that_are_proposed_are_charged_for_being_read() -> None:
    text = b"[" + b",".join([b"1"] * 60) + b"]"
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=100)):
        assert len(value_of(text)) == 61
        assert meter.left() < 100 - len(text) / 12


def test_walks_beside_values_are_charged_for_each_node_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text and JSON values that take turns inside of tokens."""
    words = [*(bytes([value]) for value in range(256)), b"", *(b"{}" + bytes([value]) for value in range(32, 127))]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[256])
    grammar = 'start: (TEXT | j)+\nj: %json {"type": "object"}\nTEXT: /[^{]+/'
    walks = charges_of(monkeypatch, ParserReading, "walk", lambda given, _: 2 + len(given[1].children) / 8)
    allowed(compile_lark(grammar, vocabulary).matcher(), vocabulary)
    assert max(work for _, work in walks) > 4
    assert not too_little(walks)


def test_tables_of_terminals_that_a_completion_makes_are_charged_for_their_states() -> None:
    """Of many numbers, each with as many decimals as its own count."""
    names = [f"N{number}" for number in range(60)]
    terminals = "".join(f"\n{name}: /[0-9]+[.][0-9]{{{100 + at}}}/" for at, name in enumerate(names))
    grammar = compile_lark(f"start: {' | '.join(names)}{terminals}", byte_vocabulary())
    matcher = grammar.matcher()
    reading = matcher._at.readings[0]
    assert isinstance(reading, ParserReading)
    lexemes = reading.parser.tables.lexer.lexemes
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=1e6)):
        made = sum(len(lexeme.table) for lexeme in lexemes if lexeme is not None)
        assert 1e6 - meter.left() >= made > 6_000
        assert all(lexeme.distances[0] > 100 for lexeme in lexemes if lexeme is not None)
        assert 1e6 - meter.left() >= 1.5 * made


UUIDS = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def steps_of(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """Note the result of each call of `owner.name`."""
    if is_compiled():
        pytest.skip("calls between compiled methods cannot be watched; what they charge is written in the same sources")
    noted: list[Any] = []
    call = getattr(owner, name)

    def noting(*given: Any) -> Any:
        noted.append(call(*given))
        return noted[-1]

    monkeypatch.setattr(owner, name, noting)
    return noted


@pytest.mark.parametrize("begun", [b"", b'{"00000000-0000-0000-0000-000000000000":1', b'{"a":2'])
def test_members_with_new_names_are_not_read_once_they_are_proposed(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "patternProperties": {UUIDS: {"type": ["integer", "null"]}},
        "additionalProperties": False,
        "minProperties": 60,
    }
    compiled = compile_json_schema(schema, byte_vocabulary())
    matcher = compiled.matcher()
    for byte in begun:
        matcher.accept(byte)
    read = steps_of(monkeypatch, ParserStates, "take")
    found = matcher.shortest_completion()
    assert found is not None
    assert len(read) < 30
    for token in found.tokens:
        matcher.accept(token)
    assert matcher.is_finished
    assert len(json.loads(begun + found.text)) == 60


def test_members_of_an_object_are_spelled_once_for_all_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"p{at}" for at in range(300)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    compiled = compile_json_schema(schema, byte_vocabulary())
    spelled = steps_of(monkeypatch, Outright, "_member")
    first = compiled.matcher().shortest_completion()
    assert first is not None
    assert len(spelled) == 299  # the name and value of the first are found by the search
    matcher = compiled.matcher()
    for byte in b'{"p0":1,"p1":1':
        matcher.accept(byte)
    assert matcher.shortest_completion() is not None
    assert len(spelled) == 299


def test_an_object_that_is_too_long_to_be_proposed_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {f"key {at}": "a value" * 4 for at in range(3_000)}
    matcher = compile_json_schema({"const": value}, byte_vocabulary()).matcher()
    proposed = steps_of(monkeypatch, Outright, "rest")
    matcher.shortest_completion()
    assert [each.too_long for each in proposed] == [True]


def test_completions_leave_a_share_of_the_work_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 300, "contains": {"minimum": 7}}
    matcher = compile_json_schema({**schema, "minContains": 300}, byte_vocabulary()).matcher()
    left = steps_of(monkeypatch, search._Search, "_deep")
    begun: list[float] = []
    run = search._Search.run

    def noting(self: Any) -> bytes | None:
        begun.append(meter.left())
        return run(self)

    monkeypatch.setattr(search._Search, "run", noting)
    with meter.allowed(meter.Allowance(5.0, meter.WorkExhausted, charges=1_000)), pytest.raises(meter.WorkExhausted):
        search.shortest_completion(matcher._states, matcher._at, matcher._tape, matcher._grammar.costs)
    assert (begun, left) == ([900.0], [])


def test_names_that_are_looked_through_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"p{at}": {"type": "integer"} for at in range(2_000)}
    matcher = compile_json_schema({"type": "object", "properties": names}, byte_vocabulary()).matcher()
    left = charges_of(monkeypatch, SharedWords, "left", lambda *_: 0)
    for byte in b'{"p100':
        allowed(matcher, byte_vocabulary())
        matcher.accept(byte)
    assert max(charges for charges, _ in left) >= len(names) / 25


def test_small_steps_are_charged_for_however_often_others_look_at_the_clock() -> None:
    """A mask of 200 kinds of objects asks a guard at each second step, and that looks."""
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=10_000, step=2.0)):
        for _ in range(3_000):
            meter.tick()
            meter.look()
            meter.charge(0.5)
        assert meter.left() < 10_000 - 0.5 * 3_000 - 2 * 2_500


def test_guards_are_charged_for_in_tags_too(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "json_schema", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    value = {"type": "repeat", "min": 0, "max": 9, "content": {"type": "optional", "content": schema}}
    matcher = compile_structural_tags({"format": value}, byte_vocabulary()).matcher()
    for byte in b'{}{"x':
        matcher.accept(byte)
    asked = charges_of(monkeypatch, Run, "passes", lambda *_: 1.5)
    matcher.accept(ord('"'))
    assert asked
    assert not too_little(asked)


def test_a_completion_is_read_no_further_than_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = compile_json_schema({"const": 'a"b\\' * 3_000}, byte_vocabulary()).matcher()
    read = steps_of(monkeypatch, search._Search, "_read")
    pieces = search._PIECES
    cut: list[int] = []

    class Noting:
        def finditer(self, text: bytes) -> Any:
            for found in pieces.finditer(text):
                cut.append(found.end())
                yield found

    monkeypatch.setattr(search, "_PIECES", Noting())
    with meter.allowed(meter.Allowance(5.0, meter.WorkExhausted, charges=4_000)), pytest.raises(meter.WorkExhausted):
        search.shortest_completion(matcher._states, matcher._at, matcher._tape, matcher._grammar.costs)
    assert read
    assert 100 < len(cut) < 1_000


def test_terminals_that_a_completion_may_go_on_with_are_charged() -> None:
    """Found by fuzzing: 220 states of a grammar inside a tag, each with hundreds of ways to go on, took 73 ms."""
    names = [f"T{at}" for at in range(60)]
    terminals = "\n".join(f'{name}: "{name.lower()}"' for name in names)
    compiled = compile_lark(f"start: ({' | '.join(names)})*\n{terminals}", byte_vocabulary())
    matcher = compiled.matcher()
    matcher.accept(ord("t"))
    matcher.accept(ord("1"))
    (reading,) = matcher._at.readings
    assert isinstance(reading, ParserReading)
    with meter.allowed(meter.Allowance(5.0, meter.WorkExhausted, charges=10_000)):
        words = matcher._grammar.costs.words.of
        ways = list(reading.ways(words))  # what is made only once
        before = meter.left()
        assert list(reading.ways(words)) == ways
        assert len(ways) > 60
        assert before - meter.left() >= 60


def test_naming_and_spelling_a_large_automaton_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two automata of 3,500 states took 37 ms of a completion, of which a third was charged."""
    listed = charges_of(monkeypatch, Table, "transitions", lambda _, found: len(found[0]) / 25)
    texts = CharDfa.from_pattern("^([a-z0-9é]{1,20} ){1,20}$")
    listed.clear()
    with metered(Allowance(60, AssertionError("too much"), charges=1e9)):
        string_table(texts)
        hash(texts)
    assert len(listed) == 2
    assert min(work for _, work in listed) > 10
    assert not too_little(listed)


def test_what_listed_names_read_and_how_they_are_spelled_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 names took 28 ms of a first mask and 19 of a question what is forced, which was not charged."""
    read = charges_of(monkeypatch, ObjectPlan, "names_read", lambda given, _: len(given[0].names) / 2)
    names = [f"p{at}" for at in range(200)]
    schema = {"type": "object", "properties": dict.fromkeys(names, True), "additionalProperties": False}
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    allowed(matcher, byte_vocabulary())
    assert max(charged - work for charged, work in read) > 0


def test_the_error_of_a_wide_object_asks_few_names_for_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that an `enum` lists have no place in the schema: 20,000 of them were asked in each of 23 states, 50 ms."""
    asked = charges_of(monkeypatch, Plans, "pointer", lambda *_: 1)
    names = [f"name {at}" for at in range(2_000)]
    matcher = compile_json_schema({"type": "object", "propertyNames": {"enum": names}}, byte_vocabulary()).matcher()
    for byte in b'{"name 1':
        matcher.accept(byte)
    asked.clear()
    matcher._reading()
    assert 0 < len(asked) < 1_000


def test_a_long_last_item_is_read_once_for_the_tokens_that_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*(bytes([value]) for value in range(256)), b"", *(b"}" + bytes([value]) for value in range(32, 127))]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[256])
    matcher = compile_json_schema({"type": "array", "uniqueItems": True}, vocabulary).matcher()
    for byte in b'[1,{"k":"' + b"long " * 200 + b'"':
        matcher.accept(byte)
    read = charges_of(monkeypatch, ArrayItems, "last", lambda given, _: len(given[1]) // 1_000)
    assert {words[token] for token in allowed(matcher, vocabulary) if words[token][:1] == b"}"} == {b"}", b"},", b"}]"}
    assert len([work for _, work in read if work]) == 1
    assert not too_little(read)
