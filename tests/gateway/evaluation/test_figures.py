"""What replies score, and what figures say: no gateway is needed."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.commands import statistics
from sluicegate.gateway.commands.eval.asking import AskedCase, Variant, body_of, variant_of
from sluicegate.gateway.commands.eval.cases import Case, suite_of
from sluicegate.gateway.commands.eval.checks import CHECKS, CheckScore, scored
from sluicegate.gateway.commands.eval.forms import read_suite
from sluicegate.gateway.commands.eval.options import check_options
from sluicegate.gateway.commands.eval.outcomes import CaseReply, UsedTool, reply_of
from sluicegate.gateway.commands.eval.report import page
from sluicegate.gateway.commands.eval.summary import ScoredCase, TokenPrices, comparison, figures, is_worse
from sluicegate.plugins import ConfigurationError


def a_case(expected: Any = None, checks: Any = ({"type": "exact"},), **fields: Any) -> Case:
    return Case("one", ({"role": "user", "content": "?"},), tuple(checks), expected=expected, **fields)


PAIR = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BOOK = [{"name": "book", "arguments": {"city": {"any_of": ["Oslo", "oslo"]}, "nights": {"any_of": [2, ""]}}}]


@pytest.mark.parametrize(
    ("check", "expected", "reply", "score"),
    [
        ("exact", "yes", " yes\n", 1),
        ("exact", "yes", "Yes", 0),
        ({"type": "exact", "ignore_case": True}, ["no", "yes"], "Yes", 1),
        ("json", {"a": 1.50}, '{"a": 1.5}', 1),
        ("json", {"a": 1}, '{"a": true}', 0),
        ("json", {"a": 1}, "{", 0),
        ("fields", {"a": 1, "b": {"c": [2, 3]}}, '{"a":1,"b":{"c":[2,4]}}', 2 / 3),
        ("fields", {"a": 1}, '{"a":1,"b":2}', 2 / 3),
        ({"type": "number", "tolerance": 0.5}, 1284, "It comes to 1,284.5 in all", 1),
        ({"type": "number", "relative": 0.01}, 100, "102", 0),
        ({"type": "regex", "pattern": "^[A-Z]{2}$"}, None, "NO", 1),
        ({"type": "schema", "schema": PAIR}, None, '{"a": "x"}', 0),
        ({"type": "schema", "schema": PAIR}, None, '{"a": 3}', 1),
        ({"type": "contains", "value": ["Oslo", "Bergen"]}, None, "from Oslo", 0.5),
        ({"type": "not_contains", "value": "sk-1"}, None, "the key is sk-123", 0),
        ({"type": "rouge", "variant": "rouge1"}, "the cat sat", "the cat sat", 1),
        ("bleu", "the cat sat on the mat", "the cat sat on the mat", 1),
        ({"type": "tool_calls", "value": []}, None, "text", 1),
    ],
)
def test_checks_score_replies(check: Any, expected: Any, reply: str, score: float) -> None:
    options = {"type": check} if isinstance(check, str) else check
    found = scored(options, a_case(expected), CaseReply(text=reply))
    assert found.score == pytest.approx(score)
    assert found.passed is (score == 1)


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ([("book", {"city": "oslo", "nights": 2})], True),
        ([("book", {"city": "Oslo"})], True),
        ([("book", {"city": "Oslo", "nights": 3})], False),
        ([("book", {"city": "Oslo", "beds": 1})], False),
        ([("cancel", {"city": "Oslo"})], False),
        ([("book", "no json")], False),
        ([], False),
        ([("book", {"city": "Oslo"}), ("book", {"city": "Oslo"})], False),
    ],
)
def test_tool_calls_are_compared_by_their_arguments(calls: list[Any], right: bool) -> None:
    reply = CaseReply(tool_calls=tuple(UsedTool(*call) for call in calls))
    assert scored({"type": "tool_calls", "value": BOOK}, a_case(), reply).passed is right


@pytest.mark.parametrize("name", sorted(set(CHECKS) - {"refused", "not_contains"}))
def test_a_refusal_passes_no_check_of_an_answer(name: str) -> None:
    options = {"type": name, "value": "no", "pattern": "no", "schema": True}
    assert not scored(options, a_case("no"), CaseReply(text="no", refused=True)).passed
    assert scored({"type": "refused"}, a_case(), CaseReply(refused=True)).passed


@pytest.mark.parametrize(
    "checks",
    [[{"type": "exakt"}], [{"type": "exact"}], [{"type": "regex", "pattern": "("}], [{"type": "regex"}],
     [{"type": "schema"}], [{"type": "schema", "schema": {"type": "strnig"}}]],
)  # fmt: skip
def test_what_no_check_can_do_is_refused_before_anything_is_asked(checks: Any) -> None:
    with pytest.raises(ConfigurationError, match="case one"):
        check_options(a_case(checks=checks))


def test_a_reply_is_an_answer_a_refusal_or_an_error() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    whole = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": usage}
    assert reply_of(200, whole, 0.5) == CaseReply(
        "yes", finish_reason="stop", seconds=0.5, prompt_tokens=3, completion_tokens=2
    )
    assert reply_of(400, {"error": {"code": "content_filter", "message": "no"}}, 0.1).refused
    assert not reply_of(400, {"error": {"code": "content_filter"}}, 0.1).error
    for status, body in ((500, {"error": {"message": "broken"}}), (200, {"choices": []}), (200, None), (502, "x")):
        assert reply_of(status, body, 0.1).error


def test_the_interval_of_a_share_is_wilsons() -> None:
    """Compared with the published example of 81 of 263 (30.8 %): 25.5 % to 36.6 %."""
    found = statistics.share(81, 263)
    assert found is not None
    assert (round(found.low, 3), round(found.high, 3)) == (0.255, 0.366)


@given(st.integers(0, 40), st.integers(1, 40))
def test_a_share_lies_within_its_interval(right: int, more: int) -> None:
    found = statistics.share(right, right + more)
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    wider = statistics.share(10 * right, 10 * (right + more))
    assert wider is not None
    assert wider.high - wider.low <= found.high - found.low


@pytest.mark.thorough
def test_intervals_cover_what_they_should() -> None:
    """Of 200 samples of a known mean, about 95 in 100 intervals hold it."""
    rng = random.Random(3)
    held = 0
    for sample in range(200):
        interval = statistics.mean([float(rng.random() < 0.7) for _ in range(60)], sample)
        assert interval is not None
        held += interval.low <= 0.7 <= interval.high
    assert 178 <= held <= 200


@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 20, 60])
def test_cases_that_all_score_the_same_are_no_certainty(score: float, n: int) -> None:
    """Few of them say little, and no number of them says all."""
    found = statistics.mean_score([score] * n)
    assert found is not None
    assert found.value == score
    assert 0 <= found.low <= score <= found.high <= 1
    assert found.high - found.low == pytest.approx(3.84 / (n + 3.84), abs=0.01)


def test_versions_that_score_the_same_are_no_certainty() -> None:
    same = [judged("a", str(i), 0.5) for i in range(6)]
    difference = comparison(same, same, 1)["difference"]
    assert (difference["value"], difference["low"]) == (0, -difference["high"])
    assert 0.3 < difference["high"] < 0.5


def test_scores_between_are_means() -> None:
    scores = [0.0, 1.0, 0.5] * 5
    assert statistics.mean_score(scores, 3) == statistics.mean(scores, 3)
    assert statistics.mean_score([]) is None
    assert statistics.mean_score([1.0, 0.0, 1.0]) == statistics.share(2, 3)


def test_a_paired_test_alarms_as_often_as_it_says() -> None:
    rng = random.Random(5)
    alarms = sum(statistics.paired([rng.gauss(0, 1) for _ in range(10)], i) < 0.05 for i in range(300))
    assert alarms <= 30
    assert statistics.paired([0.5] * 12) < 0.001
    assert statistics.paired([0.2] * 40) < 0.001
    assert statistics.paired([0.0, 0.0]) == 1


@pytest.mark.parametrize(
    ("left", "right", "value"),
    [([0, 0.5, 1], [0, 0.5, 1], 1), ([0, 1, 0, 1], [1, 0, 1, 0], -1), ([1, 1], [1, 1], None), ([], [], None)],
)
def test_agreement_beyond_chance(left: list[float], right: list[float], value: float | None) -> None:
    assert statistics.kappa(left, right) == (value if value is None else pytest.approx(value))


def judged(variant: str, name: str, score: float, **reply: Any) -> ScoredCase:
    case = Case(name, ({"role": "user", "content": "<script>alert(1)</script>"},), (), tags=("t",), schema=True)
    checks = (CheckScore("answered", score, score == 1),)
    return ScoredCase(AskedCase(variant, case, 0, CaseReply(**reply)), checks)


def test_figures_count_errors_apart_and_a_worse_version_is_told() -> None:
    left = [judged("a", str(i), 1.0, text="{}", seconds=i / 100, completion_tokens=10) for i in range(20)]
    right = [judged("b", str(i), float(i > 8), text="{") for i in range(19)] + [judged("b", "19", 0.0, error="gone")]
    found = figures(left, TokenPrices(completion=2.0), 1)
    assert (found["answers"], found["errors"], found["cost"]) == (20, 0, 0.0004)
    assert found["quality"]["value"] == found["valid_json"]["value"] == 1
    assert found["false_alarms"]["value"] == 0
    assert found["tags"]["t"]["n"] == 20
    worse = figures(right, TokenPrices(), 1)
    assert (worse["answers"], worse["errors"], worse["valid_json"]["value"]) == (19, 1, 0)
    compared = comparison(left, right, 1)
    assert (compared["cases"], compared["worse"], compared["better"]) == (19, 9, 0)
    assert is_worse(compared)
    assert not is_worse(comparison(left, left, 1))
    assert comparison(left, [], 1)["difference"] is None


def test_answers_to_one_case_are_no_independent_cases() -> None:
    """Asked ten times over, every figure is as sure as it was."""
    once = [judged("a", str(i), float(i > 2), text="{}" if i % 2 else "{") for i in range(8)]
    shares = ("quality", "passed", "valid_json", "valid", "refused", "false_alarms", "checks", "tags")
    one, ten = (figures(found, TokenPrices(), 1) for found in (once, once * 10))
    assert ten["answers"] == 80
    for name in shares:
        assert one[name] == ten[name], name


def test_valid_is_by_the_schema_of_the_case() -> None:
    case = a_case(checks=({"type": "answered"},), schema=PAIR)
    found = [ScoredCase(AskedCase("a", case, 0, CaseReply(text=text)), ()) for text in ('{"a": "x"}',)]
    told = figures(found, TokenPrices(), 1)
    assert (told["valid_json"]["value"], told["valid"]["value"]) == (1, 0)


def test_a_judge_that_fails_is_no_fault_of_the_answer() -> None:
    left = [judged("a", str(i), 1.0) for i in range(20)]
    right = [dataclasses.replace(one, checks=(), unjudged="gone") if i > 8 else one for i, one in enumerate(left)]
    found = figures(right, TokenPrices(), 1)
    assert (found["answers"], found["errors"], found["unjudged"], found["quality"]["value"]) == (9, 11, 11, 1)
    assert comparison(left, right, 1)["cases"] == 9


def test_the_page_escapes_everything_said() -> None:
    one = judged("a<b", "<img>", 0.0, text="<script>")
    report = {
        "suite": "<b>", "when": "now", "cases": 1, "notes": ["<i>"], "judge_agreement": None, "comparison": None,
        "variants": {"a<b": figures([one], TokenPrices(), 1)},
    }  # fmt: skip
    text = page(report, {"a<b": [one]})
    for markup in ("<script", "<img", "<b>", "<i>", "a<b"):
        assert markup not in text


def test_a_request_shows_the_schema_as_the_version_says() -> None:
    case = a_case(1, schema=PAIR, request={"seed": 9, "top_p": 0.5})
    usual = Variant("v", "http://x", "m", request={"top_p": 0.1})
    body = body_of(usual, case, 4)
    assert body["response_format"]["json_schema"]["schema"] == PAIR
    assert (body["seed"], body["top_p"], body["sluicegate"]) == (9, 0.5, {"cache": False})
    prompted = body_of(variant_of("p:schema=in_prompt,plain=yes", usual), case, 4)
    assert "response_format" not in prompted
    assert "sluicegate" not in prompted
    assert json.dumps(PAIR, separators=(",", ":")) in prompted["messages"][0]["content"]
    assert len(body_of(variant_of("n:schema=none", usual), case, 4)["messages"]) == 1


@pytest.mark.parametrize("text", ["a:colour=red", "a:model", "a:schema=maybe"])
def test_a_version_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--variant"):
        variant_of(text, Variant("v", "u", "m"))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("s.jsonl", "", "holds no case"),
        ("s.jsonl", "{", "line 1: no JSON"),
        ("s.jsonl", "[]", "expected an object"),
        ("s.jsonl", '{"prompt": "x"}', "nothing would be checked"),
        ("s.jsonl", '{"expected": "x"}', "either `prompt` or `messages`"),
        ("s.jsonl", '{"prompt": "x", "expected": 1, "expect": 2}', "'expect' is no field"),
        ("s.jsonl", '{"prompt": "x", "expected": 1, "human": 3}', "from 0 to 1"),
        ("s.jsonl", '{"id": 1, "prompt": "x", "expected": 1}\n{"id": 1, "prompt": "x", "expected": 1}', "two cases"),
        ("s.toml", "[cases]", "'cases' is no part"),
        ("s.toml", "=", "no TOML"),
        ("s.yaml", "- 1", "expected a table"),
        ("s.yaml", "prompts: [hi]\ntests: [{assert: [{type: javascript, value: x}]}]", "'javascript' is not read"),
        ("s.yaml", "prompts: ['{{name}}']\ntests: [{assert: [{type: equals, value: x}]}]", "'name' is undefined"),
        ("s.yaml", "doc_to_text: q\ndoc_to_target: a\ndataset_path: squad", "only `dataset_path: json`"),
        ("s.yaml", "doc_to_text: q\noutput_type: loglikelihood", "log-likelihoods"),
        ("s.jsonl", '{"id": 1, "function": [], "question": [[]]}', "ground_truth"),
    ],
)
def test_a_suite_that_cannot_be_read_names_the_place(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"(?s).*") as refused:
        read_suite(path)
    assert told in refused.value.message
    assert str(tmp_path) in refused.value.message


def test_defaults_of_a_toml_suite_hold_for_each_case(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(
        '[suite]\nname = "mine"\n[defaults]\nmax_tokens = 5\ntags = ["d"]\n'
        '[[case]]\nprompt = "a"\nexpected = "b"\n[[case]]\nprompt = "c"\nexpected = {x = 1}\ntags = ["e"]\n'
    )
    suite = suite_of(path)
    assert (suite.name, [case.id for case in suite.cases]) == ("mine", ["1", "2"])
    assert [dict(case.request) for case in suite.cases] == [{"max_tokens": 5}] * 2
    assert [case.tags for case in suite.cases] == [("d",), ("e",)]
    assert [case.checks[0]["type"] for case in suite.cases] == ["exact", "fields"]


def test_foreign_forms_become_cases(tmp_path: Path) -> None:
    (tmp_path / "pf.yaml").write_text(
        "description: towns\nprompts: ['Where is {{who}}?', 'Find {{who}}.']\n"
        "defaultTest: {assert: [{type: not-contains, value: sorry}]}\n"
        "tests: [{vars: {who: Ada}, assert: [{type: icontains, value: 'home of {{who}}'}]}]\n"
    )
    towns = read_suite(tmp_path / "pf.yaml")
    assert [case.messages[0]["content"] for case in towns.cases] == ["Where is Ada?", "Find Ada."]
    assert [check["type"] for check in towns.cases[0].checks] == ["not_contains", "contains"]
    assert towns.cases[0].checks[1]["value"] == "home of Ada"

    (tmp_path / "rows.jsonl").write_text('{"q": "2+2", "a": "4", "pick": ["3", "4"], "at": 1}\n')
    (tmp_path / "sum.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n"
        "doc_to_text: 'Q: {{q}} ='\ndoc_to_target: a\ngeneration_kwargs: {until: [\"\\n\"], max_gen_toks: 8}\n"
    )
    case = read_suite(tmp_path / "sum.yaml").cases[0]
    assert (case.messages[0]["content"], case.expected) == ("Q: 2+2 =", "4")
    assert case.request == {"max_tokens": 8, "stop": ["\n"]}
    (tmp_path / "pick.yaml").write_text(
        "output_type: multiple_choice\ndataset_path: json\ndataset_kwargs: {data_files: rows.jsonl}\n"
        "doc_to_text: q\ndoc_to_target: '{{at}}'\ndoc_to_choice: pick\n"
    )
    chosen = read_suite(tmp_path / "pick.yaml")
    assert chosen.cases[0].expected == {"answer": "4"}
    assert chosen.notes

    function = {"name": "book", "parameters": {"type": "dict", "properties": {"nights": {"type": "float"}}}}
    row = {"id": "c1", "question": [[{"role": "user", "content": "book"}]], "function": [function]}
    (tmp_path / "calls.jsonl").write_text(json.dumps(row))
    (tmp_path / "possible_answer").mkdir()
    (tmp_path / "possible_answer" / "calls.jsonl").write_text(
        '{"id": "c1", "ground_truth": [{"book": {"nights": [2]}}]}'
    )
    called = read_suite(tmp_path / "calls.jsonl").cases[0]
    assert called.tools[0]["function"]["parameters"] == {"type": "object", "properties": {"nights": {"type": "number"}}}
    assert scored(called.checks[0], called, CaseReply(tool_calls=(UsedTool("book", {"nights": 2.0}),))).passed
