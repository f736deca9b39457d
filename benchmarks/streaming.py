"""Measure leaks from streams with forbidden spans, and the cost for clean text.

    python -m benchmarks.streaming --data FILE [--limit N] [--hard] [--structured] [--plan char] [--json]

Each case is a text with forbidden spans (or none), a blocklist and an action per group. It goes through the built-in
rails in every plan of cutting it up; with --structured as a string of a JSON answer, one character in three escaped.
Reported, the worst plan deciding:

    leaked_characters   of forbidden spans that came out: the head of a span after what stands before it, or any six of
                        its characters, more often than the text without the spans has them
    after_block         cases where text behind a blocking span came out
    holdback_mean, _max characters fed and not yet out, after each piece, on texts without forbidden spans; fed by
                        character, since larger pieces add their own length to nothing
    false_alarm_rate    texts without forbidden spans that did not come out as they went in
    outcomes_differ     cases whose released text depends on the plan
    microseconds_per_piece   CPU for one piece of about four characters, all rails, measured in this process
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks import common
from sluicegate.plugins import Caller, Message, OutputRail, Request
from sluicegate.safety import (
    HoldbackWindow,
    JsonWindow,
    MatchPolicy,
    MatchRail,
    compile_phrases,
    compile_pii,
    compile_secrets,
)

FIELDS = ("id", "category", "label", "hard", "text", "chunks", "spans", "policy", "blocklist")
PLANS = ("stored", "char", "token", "random", "whole")
SHORTEST_TELLING = 6
REQUEST = Request(id="benchmark", model="none", messages=(Message("user", "go on"),))

Case = dict[str, Any]


@dataclass
class Score:
    cases: int = 0
    leaked_characters: int = 0
    after_block: int = 0
    false_alarms: int = 0
    harmless: int = 0
    held: list[tuple[float, int]] = field(default_factory=list)
    failures: list[tuple[str, str, int]] = field(default_factory=list)


def spelled(text: str, rng: random.Random) -> str:
    """Return a JSON object with `text` as its only value, in one of its many spellings."""
    marks = (json.dumps(char, ensure_ascii=rng.random() < 0.5)[1:-1] for char in text)
    escaped = (
        f"\\u{ord(char):04x}" if ord(char) < 0x10000 and rng.random() < 1 / 3 else mark
        for char, mark in zip(text, marks, strict=True)
    )
    return '{"answer": "' + "".join(escaped) + '"}'


def read(out: str) -> str:
    """Parse the string `answer` of a JSON object that may have been cut off inside it; "" if that fails."""
    for end in ("", '"}', "}"):
        try:
            return str(json.loads(out + end)["answer"])
        except ValueError:
            continue
    return ""


def pieces(case: Case, text: str, plan: str, rng: random.Random) -> Iterator[str]:
    if plan == "whole":
        yield text
        return
    stored = iter(case["chunks"])
    bounds = {"char": (1, 2), "token": (3, 9), "random": (1, 65)}
    at = 0
    while at < len(text):
        size = next(stored) if plan == "stored" else rng.randrange(*bounds[plan])
        yield text[at : at + size]
        at += size


class CaseRails:
    """Builds the built-in rails with a case's policy. Automata that do not depend on the case are made once."""

    def __init__(self) -> None:
        self._pii, self._secrets = compile_pii(), compile_secrets()

    def rails(self, case: Case) -> list[OutputRail]:
        policy = case["policy"]
        return [
            MatchRail("pii", self._pii, MatchPolicy(policy["pii"])),
            MatchRail("secrets", self._secrets, MatchPolicy(policy["secret"])),
            MatchRail("blocklist", compile_phrases(case["blocklist"]), MatchPolicy(policy["blocklist"])),
        ]


def run(
    case: Case, rails: list[OutputRail], plan: str, rng: random.Random, structured: bool
) -> tuple[str, bool, list[int]]:
    make = JsonWindow if structured else HoldbackWindow
    window = make(rails, REQUEST, Caller())
    text = spelled(case["text"], rng) if structured else case["text"]
    out: list[str] = []
    held: list[int] = []
    for piece in pieces(case, text, plan, rng):
        out.append(window.feed(piece).text)
        held.append(window.held)
    out.append(window.close().text)
    whole = "".join(out)
    return read(whole) if structured else whole, window.blocked is not None, held


def leaked(case: Case, span: dict[str, Any], out: str, allowed: str) -> int:
    text, start = case["text"], span["start"]
    value, before = text[start : span["end"]], text[max(0, start - 12) : start]

    def too_often(part: str) -> bool:
        return out.count(part) > allowed.count(part)

    heads = [n for n in range(1, len(value) + 1) if (n > 1 or len(before) >= 6) and too_often(before + value[:n])]
    best = max(heads, default=0)
    for size in range(max(SHORTEST_TELLING, best + 1), len(value) + 1):
        if not any(too_often(value[i : i + size]) for i in range(len(value) - size + 1)):
            break
        best = size
    return best


def without_spans(case: Case) -> str:
    kept, at = [], 0
    for span in case["spans"]:
        kept.append(case["text"][at : span["start"]])
        at = span["end"]
    return "\0".join([*kept, case["text"][at:]])


def goes_on_after_block(case: Case, out: str) -> bool:
    blocking = [span for span in case["spans"] if span["action"] == "block"]
    tail = case["text"][blocking[0]["end"] :].strip()[:20] if blocking else ""
    return len(tail) >= 12 and tail in out and case["text"].count(tail) == 1


def add(score: Score, case: Case, out: str, blocked: bool, held: list[int]) -> None:
    score.cases += 1
    if case["label"] == "leak":
        allowed = without_spans(case)
        characters = sum(leaked(case, span, out, allowed) for span in case["spans"])
        score.leaked_characters += characters
        score.after_block += goes_on_after_block(case, out)
        if characters or goes_on_after_block(case, out):
            score.failures.append((case["id"], case["category"], characters))
        return
    score.harmless += 1
    score.held.append((sum(held) / max(1, len(held)), max(held, default=0)))
    if blocked or out != case["text"]:
        score.false_alarms += 1
        score.failures.append((case["id"], case["category"], 0))


def per_piece_us(cases: list[Case], gate: CaseRails) -> float:
    """Measure the microseconds a piece in the second of two passes: a running server has its states."""
    took = count = 0.0
    for _ in range(2):
        took = count = 0
        for case in cases:
            window = HoldbackWindow(gate.rails(case), REQUEST, Caller())
            cut = [case["text"][i : i + 4] for i in range(0, len(case["text"]), 4)]
            began = time.process_time()
            for piece in cut:
                window.feed(piece)
            took += time.process_time() - began
            count += len(cut)
    return took / max(1, count) * 1e6


def measure(cases: list[Case], plans: tuple[str, ...], structured: bool) -> dict[str, Any]:
    gate, rng = CaseRails(), random.Random(1)
    scores = {plan: Score() for plan in plans}
    differ = 0
    for case in cases:
        rails = gate.rails(case)
        outs = set()
        for plan in plans:
            out, blocked, held = run(case, rails, plan, rng, structured)
            outs.add((out, blocked))
            add(scores[plan], case, out, blocked, held)
        differ += len(outs) > 1
    by_char = scores.get("char") or scores[plans[0]]
    harmless = [case for case in cases if case["label"] != "leak"]
    return {
        "cases": len(cases),
        "plans": list(plans),
        "leaked_characters": max(s.leaked_characters for s in scores.values()),
        "after_block": max(s.after_block for s in scores.values()),
        "holdback_mean": round(sum(mean for mean, _ in by_char.held) / max(1, len(by_char.held)), 3),
        "holdback_max": max((worst for _, worst in by_char.held), default=0),
        "false_alarm_rate": max(s.false_alarms / max(1, s.harmless) for s in scores.values()),
        "outcomes_differ": differ,
        "microseconds_per_piece": round(per_piece_us(harmless[:60], gate), 1),
        "failures": sorted({failure for s in scores.values() for failure in s.failures}),
    }


def main() -> None:
    parser = common.parser(__doc__, "safety/streaming_visible.jsonl.gz", 0, "cases")
    parser.add_argument("--hard", action="store_true", help="only the hard obfuscations (otherwise they are left out)")
    parser.add_argument("--structured", action="store_true", help="as a string in a JSON answer, with escapes")
    parser.add_argument("--plan", choices=PLANS, action="append", help="only these plans")
    args = parser.parse_args()
    read = common.records(args.data, fields=FIELDS)
    cases = [case for case in read if bool(case["hard"]) is args.hard][: args.limit or None]
    plans = tuple(args.plan or (plan for plan in PLANS if not (args.structured and plan == "stored")))
    found = measure(cases, plans, args.structured)
    for name, value in found.items():
        if name != "failures":
            print(f"{name:24} {value}")
    print(f"{'failures by category':24} {dict(Counter(category for _, category, _ in found['failures']))}")
    common.report(args, found)


if __name__ == "__main__":
    main()
