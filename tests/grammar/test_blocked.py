"""Blocklists: what no string and no free text may hold is in no mask, however it is spelled."""

from __future__ import annotations

import json
import random
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from sluicegate.grammar import (
    GrammarOptions,
    InvalidGrammar,
    LazyGrammar,
    LazyMatcher,
    TokenRejected,
    Unsatisfiable,
    Vocabulary,
    compile_choices,
    compile_json_schema,
    compile_lark,
    compile_regex,
    compile_structural_tags,
    compile_text,
)
from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.blocked import Blocklist, screen
from sluicegate.grammar.blocked.language.fold import OTHER, SPACE, WORD, _of_any, fold_runs, folded, kind_of, symbols_of
from sluicegate.grammar.blocked.language.product import _product
from sluicegate.grammar.budget.meter import DEFAULT_BUDGET
from sluicegate.grammar.json.blocked_strings import unblocked
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.strings import Strings
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_masks, walk
from tests.grammar.test_tags import functions, tools

PHRASES = ("red fox", "Fuß", "ab", "日本", "!!a")
PATTERNS = (r"\d{3}-\d{2}", "zz+y")
OPTIONS = GrammarOptions(blocklist=PHRASES, blocklist_patterns=PATTERNS)


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    pieces = [
        "red",
        " red",
        "RED ",
        " fox",
        "fox",
        " f",
        "ox",
        "fu",
        "ss",
        "ß",
        "a",
        "b",
        " ab",
        "ab",
        "xab",
        "日本",
        "日",
        "!!",
        "!a",
    ]
    pieces += [
        "12",
        "3-4",
        "-12",
        "zz",
        "zy",
        '"',
        '":',
        '": "',
        '","',
        '"a',
        'ab"',
        'b"',
        "\\u00",
        "\\u0062",
        "61",
        '{"',
        '"}',
        "\\n",
    ]
    pieces += [
        "\\",
        "\\u",
        "006",
        "1",
        "\u0301",
        "\u200b",
        "  ",
        " \n",
        "<tool_call>\n",
        "</tool_call>",
        '{"ab"',
        '"red fox"',
        '": "ab"',
    ]
    words = [bytes([b]) for b in range(256)] + [piece.encode() for piece in pieces]
    words = list(dict.fromkeys(words))
    return Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "maxLength": 6}}}
GRAMMARS: dict[str, Any] = {
    "json": lambda: compile_json_schema(SCHEMA, vocabulary(), options=OPTIONS),
    "strings": lambda: compile_json_schema(
        {"type": "array", "items": {"type": "string"}}, vocabulary(), options=OPTIONS
    ),
    "text": lambda: compile_text(vocabulary(), options=OPTIONS),
    "regex": lambda: compile_regex(r"[a-z !0-9-]*", vocabulary(), options=OPTIONS),
    "lark": lambda: compile_lark('start: ("red" | "fox" | " " | "ab" | "a" | "b")*', vocabulary(), options=OPTIONS),
    "tags": lambda: compile_structural_tags(tools(), vocabulary(), options=OPTIONS),
    "functions": lambda: compile_structural_tags(functions(), vocabulary(), options=OPTIONS),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_mask_equals_trying_every_token(name: str) -> None:
    compiled = GRAMMARS[name]()
    for seed in range(8):
        check_masks(compiled, seed, 40, _rather_long)


def _rather_long(matcher: LazyMatcher, pick: random.Random) -> int | None:
    """Draw a token, if there is one: a grammar's words may leave no way on, see the limits in the docs."""
    tokens = sorted(allowed(matcher, vocabulary()))
    if not tokens:
        return None
    return pick.choice([t for t in tokens if t >= 256] or tokens if pick.random() < 0.8 else tokens)


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts_of([name, item])


@pytest.mark.parametrize("name", ["json", "strings", "text", "regex"])
def test_no_answer_drawn_under_the_masks_holds_anything_blocked(name: str) -> None:
    """Judged from the decoded strings, by Python's own means."""
    import re

    compiled = GRAMMARS[name]()
    for seed in range(60):
        matcher, pick, text = compiled.matcher(), random.Random(seed), b""
        for _ in range(40):
            tokens = sorted(allowed(matcher, vocabulary()) - set(vocabulary().eos_token_ids))
            if not tokens:
                break
            token = pick.choice([t for t in tokens if t >= 256] or tokens if pick.random() < 0.8 else tokens)
            matcher.accept(token)
            text += vocabulary().words[token]
        found = matcher.shortest_completion()
        assert found is not None
        text += found.text
        strings = list(texts_of(json.loads(text))) if name in ("json", "strings") else [text.decode()]
        for string in strings:
            assert not any(re.search(pattern, string) for pattern in PATTERNS)
            plain = unicodedata.normalize("NFKD", string.casefold())
            plain = "".join(c for c in plain if c.isspace() or unicodedata.category(c) not in ("Mn", "Cf", "Cc"))
            plain = re.sub(r"\s+", " ", plain)
            assert not re.search(r"(?<!\w)(red fox|fuss|ab)|日本|!!a", plain), string


def blocked_in_string(text: str) -> bool:
    compiled = GRAMMARS["strings"]()
    return not accepts(compiled, f'["{text}"]', 0) and not accepts(compiled, f'["{text}"]', 1)


@pytest.mark.parametrize(
    "text",
    [
        *("red fox", "a RED  Fox", "red\\nfox", "red\\u0020fox", "r\\u0065d fox", "réd fox", "red\\u200b fox"),
        *("FUSS", "fußball", "Ab", "a\\u0062", "\\u0061b", "x \\u65e5本", "日\\u672c", "!!a", "x!!a", "ａｂ"),
        *("123-45", "1\\u00323-45", "0123-456", "zzzy", "z\\u007ay"),
    ],
)
def test_no_spelling_gets_through(text: str) -> None:
    assert blocked_in_string(text)


@pytest.mark.parametrize(
    "text", ["redfox", "red", "cab", "a b", "fox red", "infuss", "12-345", "zz", "日", "", "red f"]
)
def test_what_only_resembles_a_phrase_stays(text: str) -> None:
    """A phrase begins at a word border; it ends anywhere."""
    assert not blocked_in_string(text)


def test_property_names_are_strings_too_and_two_strings_are_two_texts() -> None:
    compiled = compile_json_schema(True, vocabulary(), options=OPTIONS)
    assert not accepts(compiled, '{"ab": 1}')
    assert not accepts(compiled, '{"x": {"\\u0061b": 1}}')
    assert accepts(compiled, '["red", "fox"]')
    assert accepts(compiled, '{"red": "fox"}')
    assert accepts(compiled, "[123, -45]")


def test_known_lists_lose_what_is_blocked_and_what_is_left_has_no_dead_end() -> None:
    schema = {"enum": ["ab", "ac", "red fox", "red deer"]}
    compiled = compile_json_schema(schema, vocabulary(), options=OPTIONS)
    assert [accepts(compiled, json.dumps(value)) for value in schema["enum"]] == [False, True, False, True]
    choices = compile_choices(["red fox", "red deer"], vocabulary(), options=OPTIONS)
    assert accepts(choices, "red deer")
    assert not accepts(choices, "red fox")
    named = compile_json_schema({"properties": {"ab": {}, "ac": {}}, "type": "object"}, vocabulary(), options=OPTIONS)
    assert accepts(named, '{"ac": 1}')


@pytest.mark.parametrize(
    "make",
    [
        lambda: compile_json_schema({"const": "Red Fox"}, vocabulary(), options=OPTIONS),
        lambda: compile_json_schema({"type": "object", "required": ["ab"]}, vocabulary(), options=OPTIONS),
        lambda: compile_json_schema({"type": "string", "pattern": "^ab"}, vocabulary(), options=OPTIONS),
        lambda: compile_choices(["ab"], vocabulary(), options=OPTIONS),
        lambda: compile_regex("xzz+y", vocabulary(), options=OPTIONS),
        lambda: compile_structural_tags(
            {"format": {"type": "const_string", "value": "ab"}}, vocabulary(), options=OPTIONS
        ),
    ],
)
def test_what_leaves_no_answer_is_refused_before_anything_is_generated(make: Any) -> None:
    with pytest.raises(Unsatisfiable):
        make()


def test_rolling_back_restores_what_was_begun() -> None:
    compiled: LazyGrammar = GRAMMARS["text"]()
    matcher = compiled.matcher()
    for byte in b"a red":
        matcher.accept(byte)
    before = allowed(matcher, vocabulary())
    for byte in b" f":
        matcher.accept(byte)
    fork = matcher.fork()
    matcher.accept(ord("o"))
    with pytest.raises(TokenRejected):
        matcher.accept(ord("x"))
    fork.rollback(2)
    assert allowed(fork, vocabulary()) == before


def test_a_blocklist_is_checked_when_it_is_given() -> None:
    for wrong in (
        {"blocklist": "red"},
        {"blocklist": [" "]},
        {"blocklist": [1]},
        {"blocklist_patterns": ["("]},
        {"blocklist_patterns": ["a*"]},
    ):
        with pytest.raises(InvalidGrammar):
            GrammarOptions.from_mapping(wrong)
    assert Blocklist(("x",), ()).holds("an X-ray")


@pytest.mark.parametrize(
    ("schema", "phrases"),
    [
        ({"type": "string", "pattern": "^(ab)+$"}, ("a", "x")),
        ({"type": "string", "pattern": "^a*b$"}, ("aab", "ab")),
        ({"type": "string", "pattern": "^(foo|bar) (foo|bar)( foo)?$"}, ("bar foo", "foo bar")),
        ({"type": "string", "pattern": "^[ab]{2} [a-f]{3}$", "maxLength": 6}, ("a", "bcd", "bb e")),
        ({"type": "string", "format": "uuid"}, ("ab", "a")),
        ({"type": "object", "patternProperties": {"^[ab]b?a?$": True}, "additionalProperties": False}, ("ab", "b")),
    ],
)
def test_where_a_pattern_meets_the_blocklist_every_text_can_be_finished(schema: Any, phrases: tuple[str, ...]) -> None:
    options = GrammarOptions(blocklist=phrases)
    blocked = options.blocked
    assert blocked is not None
    try:
        compiled = compile_json_schema(schema, byte_vocabulary(), options=options)
    except Unsatisfiable:
        assert schema.get("pattern") == "^(ab)+$"
        return
    for seed in range(20):
        text = walk(compiled, seed, limit=60)
        if text is not None:
            value = json.loads(text)
            assert not any(blocked.holds(each) for each in ([value] if isinstance(value, str) else value))


def test_a_pattern_of_which_phrases_refuse_little_keeps_its_automaton() -> None:
    blocked = GrammarOptions(blocklist=("project nightingale", "ab")).blocked
    assert blocked is not None
    plain = CharDfa.from_pattern("^[a-z]+( [a-z]+)*$")
    assert blocked.without(plain) is plain


@pytest.mark.parametrize("pattern", ["^(foo|bar|baz) (foo|bar) x?$", "^a*b$", "^[ab]{1,4}$"])
def test_texts_without_phrases_are_what_looking_into_each_says(pattern: str) -> None:
    blocked = GrammarOptions(blocklist=("bar foo", "ab", "aaa", "é")).blocked
    assert blocked is not None
    texts = CharDfa.from_pattern(pattern)
    without = CharDfa(_product(texts.table, blocked._classes, DEFAULT_BUDGET))
    for text in texts.enumerate(60):
        assert without.accepts(text) is not blocked.holds(text), text


def test_runs_of_characters_fold_as_each_of_them_does() -> None:
    starts = [start for start, _ in fold_runs()]
    for (start, symbols), end in zip(fold_runs(), [*starts[1:], sys.maxunicode + 1], strict=True):
        for code in {start, end - 1, *range(start, min(end, start + 400))}:
            char = chr(code)
            own = folded(char)
            plain = unicodedata.category(char) in ("Cn", "Co", "Cs") or (len(own) == 1 and own[0][0] == char)
            assert symbols == ((("", kind_of(char)),) if plain else own), hex(code)


def test_ascii_texts_fold_as_any_text_does() -> None:
    pick = random.Random(1)
    for _ in range(3_000):
        text = "".join(pick.choice("aZ09_- \t\n\0\x1f\x7f.") for _ in range(pick.randrange(8)))
        for before in (SPACE, OTHER, WORD):
            assert symbols_of(text, before) == _of_any(text, before), (text, before)


def test_refused_tokens_are_those_that_bring_a_phrase_about() -> None:
    """After every beginning of a phrase, at a word's border and inside a word."""
    phrases = (*PHRASES, "red foxes", "ox b", "b", "1 2")
    blocked = Blocklist(phrases, ())
    made = screen.Screen(blocked, vocabulary(), json=True)
    whole = [t for t, word in enumerate(vocabulary().words) if word and not 0x80 <= word[0] < 0xC0]
    begun = {before + phrase[:size] for phrase in phrases for size in range(len(phrase)) for before in ("", "x", ". ")}
    for text in begun:
        at = made.reader.after(made.reader.opened, text.encode())
        if not at.found:
            refused = made.refused(at)
            assert refused is not None
            assert refused[0].tolist() == [t for t in whole if made.blocks(at, vocabulary().words[t])], text
    assert blocked.holds("B")
    assert not blocked.holds("")


@pytest.mark.parametrize("patterns", [(), PATTERNS])
def test_inside_characters_the_mask_equals_trying_every_token(patterns: tuple[str, ...]) -> None:
    """Texts broken off after a backslash, inside `\\u0065` or a surrogate pair, and between bytes of UTF-8; tokens
    are all their pieces."""
    texts = [
        r"r\u0065d f\u006fx",
        r"r\u0061d fox",
        r"n\u006f \no",
        r"x\tno\nno",
        r"\ud83d\ude00 no",
        "é bé b",
        "x日本é",
        "n日no",
    ]
    spelled = [text.encode() for text in texts]
    pieces = {text[i:j] for text in spelled for i in range(len(text)) for j in range(i + 2, i + 11)}
    pieces |= {piece + b'"' for piece in pieces} | {piece + b'","ab' for piece in pieces if len(piece) < 4}
    words = [*(bytes([b]) for b in range(256)), *sorted(pieces)]
    own = Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])
    options = GrammarOptions(blocklist=(*PHRASES, "no", "é b", "n日"), blocklist_patterns=patterns)
    strings = {"type": "array", "items": {"type": "string"}}
    for compiled, start in (
        (compile_text(own, options=options), b""),
        (compile_json_schema(strings, own, options=options), b'["'),
    ):
        for text in spelled:
            rest = iter(start + text)

            def follow(matcher: LazyMatcher, pick: random.Random, rest: Iterator[int] = rest) -> int | None:
                byte = next(rest, None)
                return byte if byte in allowed(matcher, own) else None

            check_masks(compiled, 0, 60, follow)


def test_what_is_remembered_of_a_text_is_shared_bounded_and_changes_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "_SPOTS", 5)
    monkeypatch.setattr(screen, "_STEPS", 20)
    options = GrammarOptions(blocklist=(*PHRASES, "an own list"), blocklist_patterns=PATTERNS)
    compiled = compile_json_schema(SCHEMA, vocabulary(), options=options)
    for seed in range(8):
        check_masks(compiled, seed, 40, _rather_long)
    assert compiled.screens is not None
    made = compiled.screens.json
    assert made is not None
    assert len(made._spots) <= 5
    assert sum(len(spot.known) for spot in made._spots.values()) <= 20
    monkeypatch.undo()
    assert made.start.after(b'{"red') is made.start.after(b'["red') is made.start.known[b'["red']


def test_sets_without_anything_blocked_stay_the_same_object() -> None:
    """What is known of a set of strings is found by it."""
    blocked = Blocklist(("project nightingale", "ab"), ())
    kept = (Strings(words=frozenset({"red", "cab"})), Strings(low=2), Strings(dfa=CharDfa.from_pattern("^[a-z]+$")))
    assert unblocked(blocked, kept) is kept
    assert unblocked(blocked, strings.EVERY) is strings.EVERY
    listed = (Strings(words=frozenset({"ab", "ac"})),)
    assert unblocked(blocked, listed) == (Strings(words=frozenset({"ac"})),)
    patterned = (Strings(dfa=CharDfa.from_pattern("^a[bc]d?$")),)
    assert strings.finite_words(unblocked(blocked, patterned)) == frozenset({"ac", "acd"})


def test_after_half_a_character_a_way_to_the_end_is_found() -> None:
    """The first letters that begin so count as `a`."""
    compiled = compile_json_schema({"type": "string"}, byte_vocabulary(), options=GrammarOptions(blocklist=("a", "x")))
    matcher = compiled.matcher()
    for byte in b'"\xc8':
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    assert json.loads(b'"\xc8' + found.text)
