"""Objects of hundreds of names in any order: what is left of a long list is the list less what came."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import GrammarOptions, LazyGrammar, compile_json_schema
from sluicegate.grammar.json.objects.plan import _LONG, ObjectPlan
from sluicegate.grammar.json.objects.state import ObjectState
from sluicegate.grammar.lexemes.literals import Literals, sorted_spellings
from sluicegate.grammar.lexemes.remaining import Remaining, SharedWords
from sluicegate.grammar.lexemes.words import arrays_of
from sluicegate.grammar.matching import state
from sluicegate.grammar.reading.given_names import GivenNames, NameSet
from sluicegate.grammar.reading.readings import EndOfText
from sluicegate.grammar.vocabulary.kernels import last_alike
from sluicegate.grammar.vocabulary.punctuation import bit_numbers
from tests.grammar.grammar_checks import byte_vocabulary, check_masks

ALPHABETS = ("ab", "aé\u20ac😀", 'a"\\/\n\u0001', "\ud800ab")
ANY = GrammarOptions(property_order="any")


def names(seed: int, alphabet: str, count: int) -> list[str]:
    pick = random.Random(seed)
    return sorted({"".join(pick.choices(alphabet, k=pick.randint(0, 7))) for _ in range(count)})


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_what_is_left_reads_as_a_list_of_its_own(alphabet: str) -> None:
    """Step for step, in usual spellings and with escapes, from every state that random texts lead to."""
    for seed in range(3):
        listed = names(seed, alphabet, 90)
        pick = random.Random(seed)
        chosen = sum(1 << i for i in range(len(listed)) if pick.random() < 0.5) or 1
        spelled = sorted_spellings(listed)
        left = Remaining(SharedWords(spelled), chosen)
        alone = Literals([(word, number) for word, number in spelled if chosen >> number & 1])
        assert (left.words, left.outcomes) == (alone.words, alone.outcomes)
        for _ in range(5):
            state = left.start
            assert state == alone.start
            while left.grows(state):
                steps = left.next_bytes(state)
                tried = sorted({*steps, *pick.sample(range(256), 5)})
                one_by_one = {byte for byte in tried if plainly(alone, state, byte) is not None}
                assert steps == alone.next_bytes(state) == one_by_one
                assert left.characters(state) == alone.characters(state)
                byte = pick.choice(sorted(steps))
                after = left.next(state, byte)
                assert after == alone.next(state, byte) == plainly(alone, state, byte)
                assert after is not None
                state = after
            assert left.outcome(state) == alone.outcome(state)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_the_same_in_whatever_order_it_is_asked_for(seed: int) -> None:
    """One word less or more, as names come and a matcher goes back, changes what is kept; other sets are made anew."""
    pick = random.Random(seed)
    spelled = sorted_spellings(names(seed, "abcdef", 120))
    shared, chosen = SharedWords(spelled), (1 << len(spelled)) - 1
    for _ in range(150):
        for _ in range(pick.choice((0, 1, 1, 2, 40))):
            chosen ^= 1 << pick.randrange(len(spelled))
        left, words = shared.left(chosen), [(word, number) for word, number in spelled if chosen >> number & 1]
        assert list(zip(left.words, left.outcomes, strict=True)) == words
        ranges = zip(left.spelled.starts, left.spelled.ends, strict=True)
        assert [bytes(left.spelled.data[low:high]) for low, high in ranges] == left.words


@pytest.mark.parametrize("seed", range(10))
def test_words_that_part_from_the_vocabulary_alike_are_skipped_together(seed: int) -> None:
    pick = random.Random(seed)
    words = sorted({bytes(pick.choices(b"abc", k=pick.randint(1, 6))) for _ in range(80)})
    arrays, at = arrays_of(words), 0
    for place in range(len(words)):
        for size in range(1, len(words[place]) + 1):
            alike = [k for k, word in enumerate(words) if word[:size] == words[place][:size]]
            found = last_alike(arrays.data, arrays.starts, arrays.ends, place, len(words), at, size)
            assert found == alike[-1]


def plainly(lexeme: Literals, state: Any, byte: int) -> Any:
    """Step as where the other words are so few that none is skipped: each word by itself, joined."""
    low, high, at, begun = state
    found = []
    for k in range(low, high):
        word = Literals([(lexeme.words[k], lexeme.outcomes[k])])
        after = word.next(word.start._replace(at=at, begun=begun), byte)
        if after is not None:
            found.append((k, after))
    if not found:
        return None
    begun = found[0][1].begun
    whole = (low, high) if begun else (found[0][0], found[-1][0] + 1)
    return state._replace(low=whole[0], high=whole[1], at=found[0][1].at, begun=begun)


def wide(count: int, **more: Any) -> dict[str, Any]:
    listed = [f"name {k}" for k in range(count)]
    properties = {name: {"type": "integer"} for name in listed}
    return {"type": "object", "properties": properties, "required": listed[: count // 2], **more}


@pytest.mark.parametrize("options", [ANY, GrammarOptions()], ids=["any order", "in order"])
@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": False},
        {},
        {"patternProperties": {"^x": True}},
        {"maxProperties": _LONG // 2 + 5, "additionalProperties": False},
        {"minProperties": _LONG, "required": ["name 3", f"name {_LONG + 2}"]},
    ],
    ids=json.dumps,
)
def test_masks_are_those_of_trying_every_token(more: dict[str, Any], options: GrammarOptions) -> None:
    schema = wide(_LONG + 6, **more)
    check_masks(compile_json_schema(schema, byte_vocabulary(), options=options), seed=1)


def test_names_that_may_come_are_those_of_looking_at_each() -> None:
    for seed in range(400):
        state = drawn_state(random.Random(seed))
        assert bit_numbers(state.offered()) == one_by_one(state)


def drawn_state(pick: random.Random) -> ObjectState:
    """Draw an object of which some members are written, in an order or in any."""
    size = pick.randint(1, 9)
    required = tuple(pick.random() < 0.4 for _ in range(size))
    any_order, free = pick.random() < 0.5, pick.random() < 0.5
    high = pick.choice([None, pick.randint(sum(required), size + 2)])
    plan = ObjectPlan(
        names=tuple(f"n{k}" for k in range(size)),
        values=((),) * size,
        required=required,
        free=((),) if free else (),
        refused=frozenset(),
        low=pick.randint(0, size if high is None else min(size, high)),
        high=high,
        any_order=any_order,
        check=None,
        supply=pick.choice([None, 1]) if free else None,
    )
    given = pick.sample(range(size), pick.randint(0, size))
    at = sum(1 << k for k in given) if any_order else len(given)
    nothing: Any = None  # what is asked depends on no value
    return ObjectState(nothing, plan, at, len(given) * plan.counts, EndOfText())


def one_by_one(state: ObjectState) -> list[int]:
    """Return the listed names that may come next: each is tried on what is left of the required ones, and on the least
    and the most members."""
    plan, found = state.plan, []
    missing = {k for k, needed in enumerate(plan.required) if needed and not came(state, k)}
    for i in range(len(plan.names)):
        skipped = not plan.any_order and any(k in missing for k in range(i))
        rest = missing - {i}
        others = [k for k in range(len(plan.names)) if k != i and not came(state, k) and (plan.any_order or k > i)]
        endless = plan.any_order or not plan.counts or (plan.free and plan.supply is None)
        enough = endless or state.count + 1 + len(others) + (plan.supply or 0) >= plan.low
        fits = plan.high is None or state.count + 1 + len(rest) <= plan.high
        if not came(state, i) and not skipped and enough and fits:
            found.append(i)
    return found


def came(state: ObjectState, name: int) -> bool:
    """Return whether a name was given, or can no longer come."""
    return bool(state.at >> name & 1) if state.plan.any_order else name < state.at


def test_a_name_comes_once_and_all_that_are_required_come() -> None:
    schema = wide(2 * _LONG, additionalProperties=False)
    grammar = compile_json_schema(schema, byte_vocabulary(), options=ANY)
    listed = list(schema["properties"])
    random.Random(2).shuffle(listed)
    whole = dict.fromkeys(listed, 1)
    assert follows(grammar, json.dumps(whole))
    assert follows(grammar, json.dumps(dict.fromkeys(reversed(schema["required"]), 1)))
    assert not follows(grammar, json.dumps(dict.fromkeys(schema["required"][1:], 1)))
    text = json.dumps(whole)[:-1] + f', "{listed[0]}": 1}}'
    assert not follows(grammar, text)


def follows(grammar: LazyGrammar, text: str) -> bool:
    """Return whether every byte is in its mask, and the text may end."""
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocabulary.row_words, np.int32)
    for byte in text.encode():
        matcher.fill_mask(row)
        if not int(row[byte >> 5]) >> (byte & 31) & 1:
            return False
        matcher.accept(byte)
    return matcher.can_stop


def test_memory_grows_with_the_text_and_not_with_its_square() -> None:
    """Twice the names in a text with all of them takes at most three times the memory."""
    assert held(160) < 3 * held(80)
    assert held(600) < 2.4 * held(300)


@pytest.mark.parametrize("kind", ["integer", "boolean"])
@pytest.mark.parametrize("bound", ["none", "maxProperties", "minProperties"])
def test_memory_does_so_where_members_are_counted_and_objects_must_differ(bound: str, kind: str) -> None:
    def wrapped(schema: dict[str, Any], count: int) -> dict[str, Any]:
        bounds = {"none": {}, "maxProperties": {bound: count}, "minProperties": {bound: count // 4}}
        item = {**schema, "properties": {name: {"type": kind} for name in schema["properties"]}, **bounds[bound]}
        return {"type": "array", "items": item, "uniqueItems": True}

    value: Any = {"integer": 1, "boolean": True}[kind]
    assert held(240, wrapped, value) < 2.6 * held(120, wrapped, value)


def test_a_text_of_more_states_than_are_kept_is_followed_and_gone_back_in() -> None:
    text = json.dumps({f"name {k}": 1 for k in random.Random(4).sample(range(600), 600)}).encode()
    assert rows(text, back=7) == rows(text)


def rows(text: bytes, back: int = 0) -> list[bytes]:
    """Return all masks along a text. `back`: every so often, so many bytes are gone back and read again."""
    grammar = compile_json_schema(wide(600, additionalProperties={"type": "string"}), byte_vocabulary(), options=ANY)
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocabulary.row_words, np.int32)
    found: list[bytes] = []
    for at, byte in enumerate(text):
        matcher.fill_mask(row)
        found.append(row.tobytes())
        matcher.accept(byte)
        if back and at % 10 == 9:
            matcher.rollback(back)
            for again in range(at + 1 - back, at + 1):
                matcher.fill_mask(row)
                assert row.tobytes() == found[again]
                matcher.accept(text[again])
        assert len(grammar._states._known) + len(grammar._states._alone) <= state._KEPT + 40
    return found


def held(count: int, wrapped: Callable[[dict[str, Any], int], dict[str, Any]] | None = None, value: Any = 1) -> int:
    """Return the most bytes that following a text with all of `count` names took."""
    schema = wide(count, additionalProperties=False)
    grammar = compile_json_schema(wrapped(schema, count) if wrapped else schema, byte_vocabulary(), options=ANY)
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocabulary.row_words, np.int32)
    text = json.dumps({f"name {k}": value for k in random.Random(3).sample(range(count), count)})
    tracemalloc.start()
    for byte in (f"[{text}]" if wrapped else text).encode():
        matcher.fill_mask(row)
        matcher.accept(byte)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matcher.can_stop
    return most


def test_given_names_are_a_set_that_can_be_gone_back_to() -> None:
    given, history = GivenNames(), [GivenNames()]
    for k in range(100):
        given = given.plus(f"n{k}")
        history.append(given)
    for size, kept in enumerate(history):
        expected = {f"n{k}" for k in range(size)}
        assert set(kept) == kept.all() == expected
        assert all((f"n{k}" in kept) == (k < size) for k in range(101))


class Counting(dict[str, int]):
    """Counts how often it is asked."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_rests_are_those_of_looking_at_every_name(alphabet: str) -> None:
    for seed in range(5):
        given, listed = GivenNames(), names(seed, alphabet, 120)
        among = {name[k:]: k for k in range(3) for name in listed[::2]}
        for name in listed:
            given = given.plus(name)
        for begun in {name[:k] for name in listed for k in range(4)} | {"", "zz"}:
            expected = sorted(n[len(begun) :] for n in listed if n.startswith(begun) and n[len(begun) :] in among)
            assert sorted(given.rests(begun, among)) == sorted(NameSet(listed).rests(begun, among)) == expected


def test_names_that_were_given_are_not_all_looked_at_for_each_mask() -> None:
    """Four times the names in one object ask at most six times as often what is left of them."""
    assert asked(400) < 6 * asked(100)


def asked(count: int) -> int:
    given, among = GivenNames(), Counting({"": 0, "1": 1})
    listed = [f"name {k}" for k in range(count)]
    random.Random(4).shuffle(listed)
    for name in listed:
        for size in range(len(name)):
            given.rests(name[:size], among)
        given = given.plus(name)
    return among.asked
