"""Answers under a structural tag, read by a judge that shares no code with the masks."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.testing import TestApp
from sluicegate.grammar import GrammarError, GrammarOptions, compile_structural_tags
from sluicegate.plugins import Answer, Constraint, InvalidGrammar, Request
from sluicegate.plugins.testing import make_request
from tests.grammar.grammar_checks import reads
from tests.grammar.test_tags import CALL, TREES, schema, tag, tools, vocabulary

PIECES = ["<tool_call>\n", "\n</tool_call>", '{"city": "a"}', '{"zone": "UTC"}', "x", "<function=get", "_time>", ">"]
PIECES += ["</function>", "\n", "<think>", "</think>\n", "<n>", "</n>", "1", "[]", "ab", "null", '"', "a1", "</think>"]


def complaint(value: Any, text: str) -> str | None:
    return Validator().complaint(_asked(value), Answer(0, text, "stop"))


def _asked(value: Any) -> Request:
    return make_request(constraint=Constraint("structural_tag", value))


@pytest.mark.parametrize("value", [tree for tree in TREES if "regex" not in str(tree)], ids=range(len(TREES) - 1))
def test_matcher_and_judge_agree_on_random_texts(value: dict[str, Any]) -> None:
    free = GrammarOptions(whitespace=r"[ \t\r\n]*", property_order="any")
    compiled, pick = compile_structural_tags(value, vocabulary(), options=free), random.Random(1)
    texts = [_walked(compiled, seed) for seed in range(12)]
    texts += ["".join(pick.choices(PIECES, k=pick.randrange(6))) for _ in range(300)]
    texts += [_damaged(text, pick) for text in texts[:12] for _ in range(8)]
    texts += [CALL, CALL * 2, f"x{CALL}", '<think>a</think>\n{"city": ""}']
    good = 0
    for text in texts:
        by_matcher = reads(compiled, text)
        assert by_matcher == (complaint(value, text) is None), text
        good += by_matcher
    assert good


def test_a_tag_among_several_needs_no_type() -> None:
    """As in the public shape: what stands in `tags` is a tag."""
    inner = {"begin": "<n>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</n>"}
    for several in ({"type": "triggered_tags", "triggers": ["<n>"]}, {"type": "tags_with_separator", "separator": ","}):
        value = {"format": {**several, "tags": [inner]}}
        compile_structural_tags(value, vocabulary())
        Validator().prepare(_asked(value))
        assert complaint(value, "<n>12</n>") is None
        assert complaint(value, "<n>x</n>") is not None


def test_what_compiles_can_be_judged_whatever_was_left_out_or_changed() -> None:
    """A malformed tag is refused with a pointer when it is compiled; nothing else is raised then or later."""
    pick, refused, judged, nameless = random.Random(3), 0, 0, 0
    for _ in range(600):
        value = json.loads(json.dumps(pick.choice(TREES)))
        for _ in range(pick.randrange(1, 4)):
            _spoil(value, pick)
        try:
            compile_structural_tags(value, vocabulary())
            Validator().prepare(_asked(value))
        except GrammarError as error:
            refused += 1
            nameless += isinstance(error, InvalidGrammar) and not error.pointer
            continue
        judged += 1
        for text in ("", "".join(pick.choices(PIECES, k=5))):
            complaint(value, text)
    assert refused > 100
    assert not nameless
    assert judged > 20


def _spoil(value: Any, pick: random.Random) -> None:
    """Drop, rename or replace one thing somewhere in `value`."""
    places = [(v, key) for v in _below(value) for key in (list(v) if isinstance(v, dict) else range(len(v)))]
    if not places:
        return
    inside, key = pick.choice(places)
    kind = pick.randrange(4)
    if kind == 0:
        del inside[key]
    elif kind == 1:
        inside[key] = pick.choice([None, 0, True, "", "tag", "json_schema", "x", [], {}, [None], {"type": "tag"}, -1])
    elif kind == 2 and isinstance(inside, dict):
        inside[pick.choice(["type", "begin", "end", "content", "tags", "excludes", "min_count"])] = inside.pop(key)
    else:
        inside[key] = json.loads(json.dumps(pick.choice(places)[0]))


def _below(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _below(inner)
    return found


def test_an_answer_that_can_be_read_in_too_many_ways_counts_as_wrong() -> None:
    """The judge runs where others wait for it: its work is bounded, and what it has not judged is not let through."""
    regex = {"type": "regex", "pattern": "a*"}
    value = {"format": {"type": "sequence", "elements": [regex] * 20}}
    wrong = complaint(value, "a" * 20_000)
    assert wrong is not None
    assert "could not be checked" in wrong


def _walked(compiled: Any, seed: int) -> str:
    """Draw a text under the masks, as far as it comes."""
    from tests.grammar.test_tags import _inclined

    matcher, pick, text = compiled.matcher(), random.Random(seed), b""
    for _ in range(120):
        if matcher.is_finished or (matcher.can_stop and pick.random() < 0.05):
            break
        token = _inclined(matcher, pick)
        matcher.accept(token)
        text += vocabulary().words[token]
    return text.decode(errors="ignore")


def _damaged(text: str, pick: random.Random) -> str:
    at = pick.randrange(len(text) + 1)
    return text[:at] + pick.choice(["", *PIECES]) + text[at + pick.randrange(3) :]


def test_each_region_is_checked_against_its_schema_and_the_reason_is_said() -> None:
    assert complaint(tools(), f"a {CALL} b") is None
    assert "required property" in (complaint(tools(), CALL.replace("city", "town")) or "")
    assert "twice" in (complaint(tools(), CALL.replace('"city"', '"city": "", "city"')) or "")
    assert "missing" in (complaint(tools(), "<tool_call>") or "")


def test_a_malformed_schema_inside_a_tag_is_said_before_generating() -> None:
    with pytest.raises(InvalidGrammar):
        Validator().prepare(_asked({"format": tag("a", schema({"type": 5}), "b")}))


@pytest.mark.parametrize("where", ["response_format", "structured_outputs"])
async def test_a_broken_call_is_an_error_never_an_answer(where: str) -> None:
    asked: Any = tools()
    fields: Any = {where: asked if where == "response_format" else {"structural_tag": asked}}
    async with TestApp(script=["hm ", CALL]) as app:
        assert (await app.ask_async(stream=False, **fields)).text == f"hm {CALL}"
    async with TestApp(script=["hm ", CALL.replace("city", "town")]) as app:
        answer = await app.ask_async(stream=False, **fields)
        assert (answer.error or {})["code"] == "generation_failed"


def test_the_field_may_be_json_text_as_some_clients_send_it() -> None:
    import json

    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "structured_outputs": {"structural_tag": json.dumps(tools())},
    }
    constraint = parse_chat(json.dumps(body).encode()).request.constraint
    assert constraint is not None
    assert (constraint.kind, constraint.value) == ("structural_tag", tools())
