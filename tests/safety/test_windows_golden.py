"""What windows let out, step by step: kept, so that no change to it goes unseen.

Rails here are scripts drawn from a seed. They answer within the contract and now and then outside of it, in every mode
that an operator can set; what the window makes of it was read once and agreed on.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from sluicegate.plugins import Caller, Channel, OutputRail, Request, Span, Verdict
from sluicegate.safety import (
    HoldbackWindow,
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
from tests.golden import assert_golden
from tests.safety.driving import CALLER, REQUEST

GOLDEN = Path(__file__).parent / "golden"
RAIL_POLICIES = (
    RailPolicy(),
    RailPolicy(mode="shadow"),
    RailPolicy(failure_mode="open"),
    RailPolicy(on_block="escalate"),
    RailPolicy(mode="shadow", on_block="escalate"),
)


def fields_set(step: Any) -> dict[str, Any]:
    """Return what a step says, without what it does not."""
    return {name: value for name, value in asdict(step).items() if value not in ("", None, (), [])}


class Drawn:
    """A rail whose verdicts depend on the text alone: marks in it say what to do. It holds back up to `slack`."""

    def __init__(self, name: str, marks: dict[str, str], slack: int) -> None:
        self.name = name
        self._marks = marks
        self._slack = slack

    def open(self, request: Request, caller: Caller, channel: Channel) -> DrawnSession:
        return DrawnSession(self._marks, self._slack)


class DrawnSession:
    def __init__(self, marks: dict[str, str], slack: int) -> None:
        self._marks = marks
        self._slack = slack
        self._text = ""
        self._clear = 0

    def feed(self, text: str) -> Verdict:
        start = len(self._text)
        self._text += text
        spans = []
        for place in range(start, len(self._text)):
            deed = self._marks.get(self._text[place])
            if deed == "redact" and place >= self._clear:
                spans.append(Span(place, place + 1, "mark", "[x]"))
            elif deed == "block":
                return Verdict(max(self._clear, place), tuple(spans), block="marked")
            elif deed == "escalate":
                self._clear = place + 1
                return Verdict(self._end(), tuple(spans), escalate="ask", escalate_at=max(start, place))
            elif deed == "raise":
                raise ZeroDivisionError("marked")
            elif deed == "lie":
                return Verdict(len(self._text) + 1)
            elif deed == "fall back":
                return Verdict(self._clear - 1)
            elif deed == "wide":
                spans.append(Span(max(self._clear, place - 1), place + 2, "mark", "[y]"))
        held = max(self._clear, len(self._text) - self._slack, *(span.end for span in spans), 0)
        self._clear = min(held, len(self._text))
        return Verdict(self._clear, tuple(spans))

    def _end(self) -> int:
        self._clear = len(self._text)
        return self._clear

    def close(self) -> Verdict:
        return Verdict(len(self._text))

    def cut(self) -> Verdict:
        return Verdict(len(self._text), block="cut short") if self._text.endswith("q") else self.close()


DEEDS = ("redact", "redact", "block", "escalate", "raise", "lie", "fall back", "wide")


def drawn(seed: int) -> dict[str, Any]:
    """Draw one window over drawn rails and a drawn text: its steps, what it held after each, and how it ended."""
    chance = Random(seed)
    rails: list[OutputRail] = []
    terms = {}
    for number in range(chance.choice((1, 1, 2, 3))):
        marks = {mark: chance.choice(DEEDS) for mark in chance.sample("ABCDEF", chance.choice((1, 2, 3)))}
        name = f"rail-{number}"
        rails.append(Drawn(name, marks, chance.choice((0, 0, 1, 3, 5))))
        terms[name] = chance.choice(RAIL_POLICIES)
    text = "".join(chance.choice("abcdefghqqABCDEF" if chance.random() < 0.4 else "abcq") for _ in range(24))
    limits = WindowLimits(max_hold=chance.choice((4, 8, 8192)), rail_policies=terms)
    lead = chance.choice(("", "", "some lead"))
    window = HoldbackWindow(rails, REQUEST, CALLER, "content", limits, lead)
    steps = []
    while text and window.blocked is None:
        size = chance.choice((1, 2, 3, 7, 24))
        piece, text = text[:size], text[size:]
        steps.append([piece, fields_set(window.feed(piece)), window.held])
    steps.append(["", fields_set(window.close(cut=chance.random() < 0.5)), window.held])
    return {"steps": steps, "blocked": window.blocked, "irreplaceable": window.irreplaceable}


def test_windows_over_drawn_rails() -> None:
    assert_golden(GOLDEN / "windows.jsonl", {str(seed): drawn(seed) for seed in range(160)})


PII = MatchRail("pii", compile_pii(), MatchPolicy())
ZEBRA = MatchRail("words", compile_phrases(["zebra", "a1234"], borders=False), MatchPolicy())
STRICT = MatchRail("words", compile_phrases(["zebra"], borders=False), MatchPolicy("block"))
ASKING = MatchRail("words", compile_phrases(["zebra"], borders=False), MatchPolicy("escalate"))
JSON = [
    '{"a": "a zebra", "b": ["zebra", 1, {"zebra": null}], "c": "z\\u0065bra"}',
    "[123456789, -1.5e+3, 0.5, 1E9, 0, -0, 10, true, false, null]",
    '["4111 1111 1111 1111", 4111111111111111, 4.111111111111111e15, 41111111111111.11e2, 4111111111111111.0]',
    '"a zebra \\ud83d\\ude00 \\ud83d x \\ude00 \\/ \\q \\u12"',
    '{"zebra": {"zebra": "zebra"}}',
    '{"a": "ze", "b": "bra", "c": "ze\\nbra"}',
    "[1,,2]",
    "[01]",
    "[1.]",
    "[1.x]",
    "[-]",
    "[1e]",
    "[tru]",
    "[truex]",
    "[nul",
    '"zeb',
    '"zebra',
    '{"zebra',
    "[12",
    "{}",
    "[]",
    " [ ] ",
    '""',
    '{"a":{}}',
    '[[["zebra"]]]',
    "zebra",
    "1234567",
    '{"a":"\\u007a\\u0065\\u0062\\u0072\\u0061"}',
    '"x\\ud83dx zebra"',
    '"\\ud83d\\u0041 zebra"',
    '"\\uZZZZ zebra"',
    '{"a" "b"}',
    '{"a": 5, "a1234": "a1234"}',
    '{"mail": "jane@example.com", "n": 123456789012}',
    '["+1 415-555-0143", 14155550143]',
    "[202555015400, 2.025550154e9]",
]


def of_json(text: str, rails: list[OutputRail], size: int, **named: Any) -> dict[str, Any]:
    window = JsonWindow(rails, REQUEST, CALLER, "content", **named)
    steps = []
    while text and window.blocked is None:
        piece, text = text[:size], text[size:]
        steps.append([fields_set(window.feed(piece)), window.held, window.is_whole])
    end = fields_set(window.close(cut=size == 3))
    return {"steps": steps, "end": end, "blocked": window.blocked, "irreplaceable": window.irreplaceable}


def test_json_as_it_leaves() -> None:
    found = {}
    rails: dict[str, list[OutputRail]] = {"redact": [PII, ZEBRA], "block": [STRICT], "escalate": [ASKING, PII]}
    for name, chosen in rails.items():
        for text in JSON:
            for size in (1, 3, 1000) if name == "redact" else (5,):
                found[f"{name} {size} {text}"] = of_json(text, chosen, size)
    for text in JSON[:6]:
        found[f"lead {text}"] = of_json(text, [ASKING], 2, lead="a zeb")
        found[f"short {text}"] = of_json(text, [ZEBRA], 4, limits=WindowLimits(max_hold=4))
    assert_golden(GOLDEN / "json.jsonl", found)


SCHEMAS: list[Any] = [
    {},
    True,
    {"type": "string"},
    {"type": "string", "maxLength": 5},
    {"minLength": 8},
    {"maxLength": 10, "minLength": 10},
    {"format": "email"},
    {"format": "nonsense"},
    {"format": "date", "maxLength": 5},
    {"pattern": "^a"},
    {"const": "x"},
    {"enum": ["x"]},
    {"not": {"const": "y"}},
    {"allOf": [{"maxLength": 5}, {"minLength": 2}]},
    {"anyOf": [{"format": "email"}, {"format": "uri"}]},
    {"anyOf": [{"pattern": "a"}, {}]},
    {"oneOf": [{}, {"maxLength": 3}]},
    {"if": {"maxLength": 3}, "then": {"pattern": "a"}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"maxLength": 4}}},
    {"$ref": "#/$defs/b", "$defs": {}},
    {"$ref": "http://x/y"},
    {"$ref": "#"},
    {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}},
    {"properties": {"a": {"maxLength": 3}}},
    {"properties": {"b": {}}, "additionalProperties": {"format": "email"}},
    {"patternProperties": {"^a": {"pattern": "x"}}},
    {"additionalProperties": False},
    {"unevaluatedProperties": {"const": 1}},
    {"items": {"maxLength": 2}},
    {"prefixItems": [{}, {"pattern": "a"}], "items": {"enum": ["q"]}},
    {"contains": {"const": "x"}},
    {"properties": {"a": {"properties": {"b": {"maxLength": 2}}, "items": {"pattern": "x"}}}},
    {"dependentSchemas": {"a": {}}},
]
PATHS: list[tuple[str | int, ...]] = [(), ("a",), ("b",), (0,), (1,), ("a", "b"), ("a", 0)]
SPANS = [(0, 10), (2, 8), (0, 4), (0, 12)]


def test_what_may_stand_for_a_span_of_each_schema() -> None:
    found = {}
    for schema in SCHEMAS:
        redact = redactor_for(schema)
        for path in PATHS:
            found[f"{schema} at {list(path)}"] = [
                redact(JsonLocation(path, kind, whole), Redaction(start, end, "x", "[REDACTED]", "r"))
                for kind, whole in (("string", True), ("string", False), ("number", True), ("key", False))
                for start, end in (SPANS if kind == "string" else SPANS[:1])
            ]
    assert_golden(GOLDEN / "redactable.jsonl", found)
