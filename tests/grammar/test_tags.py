"""Structural tags: free text, tagged regions under their own grammars, and what may stand around them."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import (
    GrammarError,
    GrammarLimit,
    GrammarOptions,
    InvalidGrammar,
    LazyGrammar,
    LazyMatcher,
    Unsatisfiable,
    UnsupportedGrammar,
    Vocabulary,
    compile_structural_tags,
)
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_masks
from tests.grammar.test_vocabulary import bpe

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOCK = {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}
CALL = '<tool_call>\n{"city": "Oslo"}\n</tool_call>'


def tag(begin: str, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def schema(value: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": value}


def tools(**more: Any) -> dict[str, Any]:
    structures = [{"begin": "<tool_call>\n", "schema": s, "end": "\n</tool_call>"} for s in (WEATHER, CLOCK)]
    return {"type": "structural_tag", "structures": structures, "triggers": ["<tool_call>"], **more}


def functions(kind: str = "triggered_tags", **more: Any) -> dict[str, Any]:
    named = {"get_weather": WEATHER, "get_time": CLOCK, "get": True}
    tags = [tag(f"<function={name}>", schema(value), "</function>") for name, value in named.items()]
    extra = {"triggers": ["<function="]} if kind == "triggered_tags" else {"separator": "\n"}
    return {"format": {"type": kind, "tags": tags, **extra, **more}}


def thinking(answer: Any) -> dict[str, Any]:
    thoughts = tag("<think>", {"type": "any_text"}, "</think>\n")
    return {"format": {"type": "sequence", "elements": [thoughts, answer]}}


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """Make a vocabulary of bytes, and of tokens that cross from free text into a tag, through it, and out again."""
    pieces = ["<t", " <tool", "_call>", '>\n{"', '"}\n</', "}\n</tool_call>", '"}', '"city"', '": "', "</function>"]
    pieces += ["<tool_call>", "<tool_call>\n", '<tool_call>\n{"city"', "</tool_call>\n<", "}</function>x", "ab ", ' "']
    pieces += ["</think>\n{", "</think>", "<think>", "<function=get", ">{}</", "1}\n</", '",', '{"', '"C"', "}}", "yes"]
    pieces += ["1</n>", "</n>a", "null</n>", "l</n><n>", "<n>1</n><n>", "12", '"</n>', "]</n>", "<n>[", "<n>"]
    words = [bytes([b]) for b in range(256)] + [piece.encode() for piece in dict.fromkeys(pieces)]
    words = list(dict.fromkeys(words))
    return Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])


def check(value: Any, valid: list[str], invalid: list[str]) -> LazyGrammar:
    compiled = compile_structural_tags(value, vocabulary())
    for expected, texts in ((True, valid), (False, invalid)):
        for text in texts:
            for seed in (0, 1):
                assert accepts(compiled, text, seed) is expected, text
    return compiled


def test_tools_are_called_any_number_of_times_amid_free_text() -> None:
    check(
        tools(),
        ["", "Hello.", CALL, f"I look. {CALL} and {CALL}!", '"[{', f"<tool{CALL}", "<tool_call"],
        ["<tool_call>", "<tool_call> x", CALL[:-1], CALL.replace("city", "town"), f"{CALL}<tool_call>"],
    )


def test_tools_are_called_at_least_once_and_nothing_stands_before() -> None:
    check(
        tools(at_least_one=True),
        [CALL, f"{CALL}\n{CALL}", f"{CALL} done"],
        ["", "x", f" {CALL}"],
    )
    check(tools(at_least_one=True, text_after=False), [CALL, CALL + CALL], [f"{CALL}\n", f"{CALL}\n{CALL}", ""])


def test_the_number_of_calls_is_bounded() -> None:
    check(tools(max_count=1), ["a", f"a{CALL}b"], [f"{CALL}{CALL}", f"{CALL}<tool_call>"])
    check(tools(stop_after_first=True), ["a", f"a{CALL}"], [f"{CALL} ", f"{CALL}{CALL}"])
    check(tools(min_count=2), [f"{CALL}a{CALL}b", f"{CALL}{CALL}{CALL}"], [CALL, "", f"a{CALL}b"])
    check(tools(max_count=0), ["a"], [CALL])


def test_tags_with_a_separator_leave_no_room_for_text() -> None:
    one, other = '<function=get_weather>{"city":""}</function>', '<function=get_time>{"zone": "UTC"}</function>'
    check(functions("tags_with_separator"), ["", one, f"{one}\n{other}"], [f"{one}\n", f"{one}{other}", " "])
    check(
        functions("tags_with_separator", at_least_one=True, max_count=2),
        [one, f"{one}\n{one}"],
        ["", "\n".join([one] * 3)],
    )
    check(functions("tags_with_separator", stop_after_first=True), ["", one], [f"{one}\n{one}"])
    check(functions("tags_with_separator", min_count=2), [f"{one}\n{other}"], ["", one])


def test_each_tag_has_its_own_schema() -> None:
    weather, time = '<function=get_weather>{"city": "a"}</function>', '<function=get_time>{"zone": "CET"}</function>'
    check(
        functions(),
        [f"x{weather}y{time}", "<function", "<function=get>[1, 2]</function>", "<function=get>1</function>"],
        ['<function=get_time>{"city": "a"}</function>', "<function=other>", "<function=get_>1</function>"],
    )


def test_reasoning_ends_at_its_first_end_and_a_schema_follows() -> None:
    check(
        thinking(schema(WEATHER)),
        ['<think>hm {"</think>\n{"city": "a"}', '<think></think>{</think>\n{"city":"b"}'],
        [
            '{"city": "a"}',
            '<think>a</think>\n{"city": "a"} ',
            "<think>a</think>\n",
            '<think>a</think>\n</think>\n{"city":"b"}',
        ],
    )
    check(thinking({"type": "any_text"}), ["<think>a</think>\n", "<think>a</think>\nb"], ["a", "<think>"])


def test_other_contents_are_regular_expressions_choices_and_grammars() -> None:
    digits = tag("<n>", {"type": "regex", "pattern": r".*\d"}, "</n>")
    check({"format": digits}, ["<n>ab1</n>"], ["<n></n>", "<n>a</n>", "<n>1</n>1</n>"])
    either = {"type": "or", "elements": [{"type": "const_string", "value": "yes"}, digits, schema({"type": "integer"})]}
    check({"format": either}, ["yes", "<n>1</n>", "12"], ["no", "", "<n>"])
    lark = tag("<n>", {"type": "grammar", "grammar": 'start: "a"+ | "(" start ")"'}, ["</n>", "</m>"])
    check({"format": lark}, ["<n>aa</n>", "<n>((a))</m>"], ["<n></n>", "<n>(a</n>"])
    perhaps = {"type": "sequence", "elements": [{"type": "optional", "content": digits}, schema({"type": "null"})]}
    check({"format": perhaps}, ["null", "<n>1</n>null"], ["<n>1</n>", "nullnull"])


def test_excluded_texts_do_not_occur() -> None:
    check({"format": {"type": "any_text", "excludes": ["bad", "é"]}}, ["ba d", "e"], ["a bad", "é"])
    check(tools(excludes=["yes"]), ["ye s", f"ye{CALL}s"], ["yes", f"{CALL}yes"])


def test_no_name_occurs_twice_in_one_region_but_in_each() -> None:
    """What guards look back at begins with the region, whatever the text before it held."""
    call = '<function=get>{"a": 1}</function>'
    check(
        functions(),
        [f'"{{"a": [{call} "a": {call}', '<function=get>{"a": {"a": "<function=get>{"}}</function>'],
        ['<function=get>{"a": 1, "a": 2}</function>', f'{call}<function=get>{{"a": 1, "a": 2}}</function>'],
    )


TREES = [
    tools(),
    tools(at_least_one=True, text_after=False, max_count=2),
    tools(min_count=1, max_count=1, excludes=["ab"]),
    functions(),
    functions("tags_with_separator"),
    thinking(schema(WEATHER)),
    {"format": {"type": "tags_with_separator", "tags": [tag("<n>", schema(True), "</n>")], "separator": ""}},
    {"format": tag("<n>", {"type": "regex", "pattern": "[a1]*(<n>)?"}, ["</n>", "</think>"])},
    {
        "format": {
            "type": "sequence",
            "elements": [schema({"type": "array", "uniqueItems": True}), {"type": "any_text"}],
        }
    },
]


@pytest.mark.parametrize("value", TREES, ids=range(len(TREES)))
def test_the_mask_equals_trying_every_token(value: dict[str, Any]) -> None:
    compiled = compile_structural_tags(value, vocabulary())
    for seed in range(4):
        check_masks(compiled, seed, 40, _inclined)


def _inclined(matcher: LazyMatcher, pick: random.Random) -> int:
    """Draw a token, rather a long one: most bytes of free text lead nowhere."""
    tokens = sorted(allowed(matcher, vocabulary()) - set(vocabulary().eos_token_ids))
    long = [token for token in tokens if len(vocabulary().words[token]) > 1 or token in b'<>{}":\n']
    return pick.choice(long if long and pick.random() < 0.8 else tokens or [vocabulary().eos_token_ids[0]])


@pytest.mark.parametrize("value", TREES, ids=range(len(TREES)))
def test_rolling_back_gives_bit_identical_masks(value: dict[str, Any]) -> None:
    matcher, pick = compile_structural_tags(value, vocabulary()).matcher(), random.Random(7)
    rows: list[np.ndarray] = []
    while len(rows) < 60:
        if rows:
            if matcher.is_finished:
                break
            matcher.accept(_inclined(matcher, pick))
        rows.append(np.zeros(vocabulary().row_words, np.int32))
        matcher.fill_mask(rows[-1])
    for back in range(len(rows) - 1, 0, -5):
        fork = matcher.fork()
        fork.rollback(back)
        row = np.zeros(vocabulary().row_words, np.int32)
        fork.fill_mask(row)
        assert np.array_equal(row, rows[len(rows) - 1 - back])


def test_what_follows_a_trigger_is_forced() -> None:
    tokenizer = bpe()
    words = Vocabulary.from_tokenizer(tokenizer)
    value = {
        "structures": [{"begin": "<call>now", "schema": {"const": {"key": 1}}, "end": "</call>"}],
        "triggers": ["<call>"],
    }
    matcher = compile_structural_tags(value, words, options=GrammarOptions(whitespace="compact")).matcher()
    for token in tokenizer.encode("hm <call>", add_special_tokens=False):
        matcher.accept(token)
    text = b"".join(words.words[token] for token in matcher.forced_tokens())
    assert text.startswith(b'now{"key')


BEFORE_ANOTHER = {"type": "sequence", "elements": [schema(True), {"type": "any_text"}]}
"""Free text that nothing ends where the same comes once more."""


@pytest.mark.parametrize(
    ("value", "error", "pointer"),
    [
        (1, InvalidGrammar, ""),
        ({"type": "other"}, InvalidGrammar, "/type"),
        ({"format": {"type": "token"}}, UnsupportedGrammar, "/format/type"),
        (tools(extra=1), InvalidGrammar, "/extra"),
        (tools(min_count=3, max_count=2), InvalidGrammar, "/max_count"),
        (tools(min_count=True), InvalidGrammar, "/min_count"),
        (tools(max_count=10**9), InvalidGrammar, "/max_count"),
        ({**tools(), "triggers": ["<other>"]}, InvalidGrammar, "/structures/0/begin"),
        ({**tools(), "triggers": [""]}, InvalidGrammar, "/triggers/0"),
        (
            {"structures": [{"begin": "<t>", "schema": False, "end": ""}], "triggers": ["<"]},
            Unsatisfiable,
            "/structures/0/schema",
        ),
        ({"format": schema({"type": "integr"})}, InvalidGrammar, "/format/json_schema/type"),
        ({"format": {"type": "regex", "pattern": "("}}, InvalidGrammar, "/format/pattern"),
        ({"format": tag("<a>", {"type": "regex", "pattern": "[a-z]+\\n"}, "\n")}, Unsatisfiable, "/format/content"),
        ({"format": tag("<a>", {"type": "regex", "pattern": "[a-z]+\\n?"}, "\n")}, None, ""),
        ({"format": tag("<a>", {"type": "regex", "pattern": "x?"}, ["x", "y"])}, None, ""),
        ({"format": {"type": "const_string", "value": "x" * 2_000}}, GrammarLimit, "/format/value"),
        ({"format": tag("a" * 3, {"type": "any_text"}, "")}, None, ""),
        ({"format": {"type": "sequence", "elements": [{"type": "any_text"}, schema(True)]}}, UnsupportedGrammar, ""),
        ({"format": tag("a", {"type": "any_text"}, ["ab", "cabc"])}, UnsupportedGrammar, ""),
        ({"format": {"type": "repeat", "min": 2, "max": 3, "content": BEFORE_ANOTHER}}, UnsupportedGrammar, ""),
        ({"format": {"type": "repeat", "min": 0, "max": 1, "content": BEFORE_ANOTHER}}, None, ""),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_generated(
    value: Any, error: type[GrammarError] | None, pointer: str
) -> None:
    if error is None:
        compile_structural_tags(value, byte_vocabulary())
        return
    with pytest.raises(error) as caught:
        compile_structural_tags(value, byte_vocabulary())
    assert caught.value.pointer.startswith(pointer)


# --- JSON strings under a grammar of their own -----------------------------------------------------------------------

IN_STRING = [
    ({"type": "regex", "pattern": '[a-z"\n\\\\]{2,4}'}, ["ab", 'a"\n\\', "\\\\"], ["a", "A", 'a"\n\\a']),
    ({"type": "regex", "pattern": "a*"}, ["", "aaa"], ["b"]),
    (
        {"type": "grammar", "grammar": 'start: "say \\"" WORD "\\"\\n"\nWORD: /[a-zé\\t]+/'},
        ['say "hé\t"\n'],
        ["say", ""],
    ),
    ({"type": "grammar", "grammar": 'root ::= "[" root* "\\n]"'}, ["[\n]", "[[\n][\n]\n]"], ["[]", "[\n"]),
]


def in_string(content: Any) -> LazyGrammar:
    inside = tag('{"input": ', {"type": "json_string", "content": content}, "}")
    return compile_structural_tags({"format": inside}, byte_vocabulary())


@pytest.mark.parametrize(("content", "taken", "refused"), IN_STRING)
def test_a_json_string_holds_a_text_of_its_grammar(content: Any, taken: list[str], refused: list[str]) -> None:
    """What is escaped in JSON is escaped here, in its shortest way; the grammar speaks of the text itself."""
    grammar = in_string(content)
    for text in (*taken, *refused):
        written = json.dumps({"input": text}, ensure_ascii=False)
        assert accepts(grammar, written) == (text in taken), text


@pytest.mark.parametrize("content", [content for content, _, _ in IN_STRING])
def test_what_is_drawn_inside_a_json_string_is_json(content: Any) -> None:
    vocabulary, rng = byte_vocabulary(), random.Random(5)
    for _ in range(4):
        matcher, drawn = in_string(content).matcher(), b""
        for _ in range(400):
            tokens = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
            if not tokens:
                break
            token = rng.choice(tokens)
            matcher.accept(token)
            drawn += vocabulary.words[token]
        if matcher.can_stop:
            assert list(json.loads(drawn)) == ["input"]


def test_a_json_string_holds_texts_only() -> None:
    with pytest.raises(InvalidGrammar, match="regex or of a grammar"):
        in_string({"type": "any_text"})
    with pytest.raises(Unsatisfiable):
        in_string({"type": "regex", "pattern": "[^\\x00-\\U0010ffff]"}).matcher()
