"""Structured answers: rails read the decoded strings, and what leaves is still JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluicegate.plugins import OutputRail
from sluicegate.safety import (
    JsonLocation,
    JsonWindow,
    MatchPolicy,
    MatchRail,
    RailPolicy,
    Redaction,
    WindowLimits,
    compile_phrases,
    compile_pii,
    redactor_for,
)
from sluicegate.safety.window.json_window import replace_in_strings
from tests.safety.driving import CALLER, REQUEST, cuts, cuttings

PII = MatchRail("pii", compile_pii(), MatchPolicy())
ZEBRA = MatchRail("words", compile_phrases(["zebra", "über uns"], borders=False), MatchPolicy())
STRICT = MatchRail("words", compile_phrases(["zebra"], borders=False), MatchPolicy("block"))


def run(
    pieces: Sequence[str], *rails: OutputRail, redactor: Any = replace_in_strings, limits: WindowLimits = WindowLimits()
) -> tuple[str, str | None, list[Redaction]]:
    window = JsonWindow(rails, REQUEST, CALLER, "content", limits, redactor)
    out, redactions = "", []
    for step in (*map(window.feed, pieces), window.close()):
        out += step.text
        redactions += step.redactions
    assert window.blocked or window.held == 0
    return out, window.blocked, redactions


def escaped(text: str) -> str:
    """Write every UTF-16 unit as an escape."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))


@pytest.mark.parametrize("secret", ["123-45-6789", "jane@example.com", "4111 1111 1111 1111"])
def test_an_escape_hides_nothing(secret: str) -> None:
    for spelled in (secret, escaped(secret), secret[:3] + escaped(secret[3:6]) + secret[6:]):
        text = f'{{"note": "see {spelled} there"}}'
        for pieces in [text], list(text):
            out, blocked, redactions = run(pieces, PII)
            assert (json.loads(out), blocked) == ({"note": "see [REDACTED] there"}, None)
            assert [text[r.start : r.end] for r in redactions] == [spelled]


def test_what_passes_leaves_as_it_was_spelled() -> None:
    text = '{ "a" : "\\u0041\\n\\/ \\ud83d\\ude00 é \\ud83d!", "b":[1, -2.5e+3, true,null ] }\n'
    assert run([text], PII, ZEBRA) == (text, None, [])
    assert run(list(text), PII, ZEBRA) == (text, None, [])


def test_structure_leaves_at_once_and_text_as_soon_as_it_may() -> None:
    window = JsonWindow([ZEBRA], REQUEST, CALLER)
    assert window.feed('{"a": "x zeb').text == '{"a": "x '
    assert window.held == 3
    assert window.feed('", "b').text == 'zeb", "b'


def test_a_phrase_with_an_escaped_letter_and_line_break_is_found() -> None:
    assert run(['["\\u00fcber\\nuns", "\\u00DCBER  uns"]'], ZEBRA)[0] == '["[REDACTED]", "[REDACTED]"]'


def test_each_string_is_a_text_of_its_own() -> None:
    text = '["zeb", "ra", "a zebra"]'
    assert run([text], ZEBRA)[0] == '["zeb", "ra", "a [REDACTED]"]'


@pytest.mark.parametrize("text", ['{"card": 4111111111111111}', '{"a zebra": 1}'])
def test_a_number_or_key_that_must_not_leave_blocks(text: str) -> None:
    out, blocked, _ = run(list(text), PII, ZEBRA)
    assert blocked == "redaction_refused"
    assert "4" not in out
    assert "zeb" not in out


def test_a_block_ends_the_answer_before_the_span() -> None:
    assert run(['{"a": "x zebra y", "b": 1}'], STRICT)[:2] == ('{"a": "x ', "blocklist")


@pytest.mark.parametrize("text", ["hello", '{"a": hello}', "[tru3]", "[01]", "[1.e]", "NaN", '{"a": \\u0061}', "[--1]"])
def test_what_is_not_json_is_not_let_out(text: str) -> None:
    assert run([text], PII)[1] == run(list(text), PII)[1] == "not_json"


@pytest.mark.parametrize("text", ['{"a": "x', '{"a": tr', '["\\u00', '["\\ud83d', "[12", '["\\'])
def test_an_answer_cut_short_leaves_as_far_as_it_came(text: str) -> None:
    assert run([text], PII)[:2] == run(list(text), PII)[:2] == (text, None)


def test_a_rail_that_fails_blocks_here_too() -> None:
    assert (
        run(['["abc"]'], PII, limits=WindowLimits(rail_policies={PII.name: RailPolicy(budget_s=0.0)}))[1]
        == "rail_failed"
    )


strings = st.lists(
    st.sampled_from(["zebra", "zeb", " ", "jane@x.org", "über\nuns", "😀", "\\", '"', "a", "123-45-6789"])
).map("".join)
values = st.recursive(
    strings | st.integers(-99, 99) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c", "é"]), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(values, st.booleans(), cuts, st.booleans())
def test_the_outcome_does_not_depend_on_the_cut_and_is_json(
    value: Any, ascii_only: bool, places: list[int], strict: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    rails = (PII, STRICT if strict else ZEBRA)
    outcomes = [run(pieces, *rails) for pieces in cuttings(text, places)]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    out, blocked, redactions = outcomes[0]
    assert blocked or out == text or redactions
    if blocked is None:
        said = json.dumps(json.loads(out), ensure_ascii=False)
        assert "zebra" not in said


@settings(max_examples=100, deadline=None)
@given(st.text('{}[],:"\\u0d8eé 1-.tn', max_size=20), cuts)
@example("-0e.", [])
@example("[12.5e+x", [2])
@example("4111111111111111.0e0e", [3])
def test_no_text_breaks_the_reader(text: str, places: list[int]) -> None:
    outcomes = [run(pieces, PII, ZEBRA) for pieces in cuttings(text, places)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_the_redactor_is_told_the_place() -> None:
    seen: list[JsonLocation] = []

    def redactor(place: JsonLocation, redaction: Redaction) -> str | None:
        seen.append(place)
        return 'said "no"'

    text = '{"k": [{"x": "a zebra b"}, "zebra"], "zebra": {"y": 1}}'
    out, blocked, _ = run([text], ZEBRA, redactor=redactor)
    assert blocked is None
    assert json.loads(out) == {"k": [{"x": 'a said "no" b'}, 'said "no"'], 'said "no"': {"y": 1}}
    assert seen == [
        JsonLocation(("k", 0, "x"), "string", False),
        JsonLocation(("k", 1), "string", True),
        JsonLocation((), "key", True),
    ]


FREE = {"type": "string"}


def holder(schema: Any) -> Any:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (holder(FREE), "to jane@x.org.", "to [REDACTED]."),
        (holder({"type": "string", "format": "email"}), "jane@x.org", "redacted@example.invalid"),
        (holder({"type": "string", "format": "uri"}), "see jane@x.org", None),
        (holder({"type": "string", "maxLength": 10}), "jane@x.org", "[REDACTED]"),
        (holder({"type": "string", "maxLength": 9}), "j@ab.org", None),
        (holder({"type": "string", "maxLength": 20}), "to jane@x.org", "to [REDACTED]"),
        (holder({"type": "string", "maxLength": 20}), "to j@x.org", None),
        (holder({"type": "string", "pattern": "@"}), "jane@x.org", None),
        (holder({"enum": ["jane@x.org"]}), "jane@x.org", None),
        (holder({"anyOf": [FREE, {"type": "string", "pattern": "@"}]}), "jane@x.org", None),
        ({"$defs": {"t": FREE}, **holder({"$ref": "#/$defs/t"})}, "jane@x.org", "[REDACTED]"),
        ({"$defs": {"t": {"pattern": "@"}}, **holder({"$ref": "#/$defs/t"})}, "jane@x.org", None),
        (holder({"$ref": "https://elsewhere.example/"}), "jane@x.org", None),
        (holder({"$ref": "#"}), "jane@x.org", "[REDACTED]"),
        ({"type": "object", "additionalProperties": {"maxLength": 3}}, "jane@x.org", None),
    ],
)
def test_a_redacted_value_still_satisfies_its_schema_or_the_answer_is_blocked(
    schema: Any, value: str, expected: str | None
) -> None:
    out, blocked, _ = run(list(json.dumps({"a": value})), PII, redactor=redactor_for(schema))
    if expected is None:
        assert blocked == "redaction_refused"
        return
    assert (json.loads(out), blocked) == ({"a": expected}, None)
    if schema["properties"]["a"].get("$ref") != "#":
        assert jsonschema_rs.is_valid(schema, json.loads(out), validate_formats=True)


def test_positions_in_arrays_have_their_own_schema() -> None:
    schema = {"prefixItems": [{"pattern": "@"}], "items": FREE}
    assert json.loads(run(['["x", "jane@x.org"]'], PII, redactor=redactor_for(schema))[0]) == ["x", "[REDACTED]"]
    assert run(['["jane@x.org"]'], PII, redactor=redactor_for(schema))[1] == "redaction_refused"
