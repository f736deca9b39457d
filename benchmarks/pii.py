"""Measure the recall of the built-in rails for personal data and credentials, and their speed.

    python -m benchmarks.pii [--data FILE_OR_FOLDER] [--limit N] [--json]

recall              by type: spans of which every character was found
near_misses_hit     marked look-alikes of which any character was found
false_alarms        texts marked clean where anything was found, of so many
megabytes_per_s     of UTF-8, CPU time: `scan` of the texts joined, both rails
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import common
from sluicegate.safety import Automaton, compile_pii, compile_secrets, find_all

# Labels of the sets that our rails have under another name; labels without a rail (names, places) are not counted.
NAMES = {
    "CREDIT_CARD": "credit_card",
    "EMAIL_ADDRESS": "email",
    "IP_ADDRESS": "ip_address",
    "PHONE_NUMBER": "phone",
    "US_SSN": "us_ssn",
    "IBAN_CODE": "iban",
}

SETS = ("pii_*.jsonl.gz", "streaming_*.jsonl.gz")
"""Of a folder: texts with `spans`, and the streaming cases."""
Row = dict[str, Any]


def covered(automata: list[Automaton], text: str) -> set[int]:
    return {i for automaton in automata for m in find_all(automaton, text) for i in range(m.start, m.end)}


def measure(listed: Iterable[Row], automata: list[Automaton]) -> dict[str, Any]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    known = {rule.label for automaton in automata for rule in automaton.rules}
    near = [0, 0]
    clean = [0, 0]
    missed = []
    for row in listed:
        places = covered(automata, row["text"])
        for span in row["spans"]:
            label = NAMES.get(span["type"], span["type"])
            if label in known:
                hit = places.issuperset(range(span["start"], span["end"]))
                found[label][0] += hit
                found[label][1] += 1
                missed += [] if hit else [(row["id"], label)]
        for span in row.get("near_misses", ()):
            near[0] += not places.isdisjoint(range(span["start"], span["end"]))
            near[1] += 1
        if row["label"] in ("clean", "near_miss"):
            clean[0] += bool(places)
            clean[1] += 1
    return {
        "recall": {label: round(hit / of, 4) for label, (hit, of) in sorted(found.items())},
        "spans": {label: of for label, (_, of) in sorted(found.items())},
        "near_misses_hit": near,
        "false_alarms": clean,
        "missed": missed,
    }


def speed(texts: Iterable[str], automata: list[Automaton]) -> float:
    text = "\n".join(texts)
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for automaton in automata:
            find_all(automaton, text)
        best = min(best, time.process_time() - began)
    return round(len(text.encode()) / max(best, 1e-9) / 1e6, 1)


def speeds(listed: list[Row], pii: Automaton, secrets: Automaton) -> dict[str, float]:
    texts = [row["text"] for row in listed]
    clean = [row["text"] for row in listed if row["label"] in ("clean", "near_miss")]
    return {
        "pii": speed(texts, [pii]),
        "secrets": speed(texts, [secrets]),
        "both": speed(texts, [pii, secrets]),
        "both_clean": speed(clean, [pii, secrets]),
    }


def _files(data: Path) -> list[Path]:
    return sorted(path for pattern in SETS for path in data.glob(pattern)) if data.is_dir() else [data]


def main() -> None:
    args = common.parser(__doc__, "safety", 0, "texts of each file").parse_args()
    if not (files := _files(args.data)):
        raise SystemExit(f"{args.data}: none of {', '.join(SETS)} is here; name a folder of them, or one, with --data")
    automata = [compile_pii(), compile_secrets()]
    report = {}
    for path in files:
        listed = common.records(path, args.limit, fields=("id", "text", "label", "spans"))
        report[path.name.split(".")[0]] = measure(listed, automata) | {"megabytes_per_s": speeds(listed, *automata)}
    for name, found in report.items():
        print(name)
        for key, value in found.items():
            print(f"  {key:18} {value}")
    common.report(args, report)


if __name__ == "__main__":
    main()
