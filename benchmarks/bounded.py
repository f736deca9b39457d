"""Search grammars and schemas for calls of a matcher that take more than 50 ms of CPU time.

    python -m benchmarks.bounded [--data RANKS] [--minutes M | --seconds S] [--limit N] [--only KINDS] [--seed N]
        [--most-ms MS] [--schemas FILE] [--grammars FOLDER] [--out FILE] [--json]

RANKS: a tiktoken rank file or the folder of a `transformers` tokenizer. Grammars in Lark and in GBNF, structural tags
and JSON schemas (half of them with members in any order) are drawn, many of shapes that are known to be dear
(`benchmarks.random_grammars`, `benchmarks.random_schemas`), or made of real ones by changing parts
(`benchmarks.changed_grammars`): of the grammars of `benchmarks.grammar_samples`, of those in the files of FOLDER, and
of the schemas in FILE, lines of JSON with a `schema`, perhaps `tests` with `data`. Each that compiles is followed by
tokens of its masks, random ones or those of a text of the real grammar, up to 160; N grammars at most, until the time
is over. Every `fill_mask`, `accept`, `rollback`, `forced_tokens` and `shortest_completion` is timed (CPU time of the
thread, without collections of garbage) in a process of its own (`benchmarks.bounded_search`), which a new one follows
every five minutes, past 3 GB, and where it hangs or dies.

A finding is a call above `--most-ms`; an error that ends a call and names no rule, or is no `GrammarError`; compiling
that takes longer than its limit. A call that ends with a typed error in time is none; how many did is counted. Each is
measured three more times, in processes that have seen no other grammar. One that is slow each time is a fact, and its
grammar is made smaller by leaving out lines, alternatives and properties, 15 s at most; another one is noise of the
machine. Both are listed, with all four times. The last line is the result as JSON: all of it with `--json`, else
without the findings. FILE has all of it every five minutes, and where the run is interrupted (SIGINT, SIGTERM).
"""

from __future__ import annotations

import io
import json
import signal
import sys
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.bounded_search import Broken, Search, Suspect, Tried, events, measured_again, smaller_grammar
from benchmarks.grammar_sources import KINDS

_PRINTED = 2_000
_STEPS_MS = (20, 30, 40, 50)
"""Times above which calls are counted."""


class Finding(NamedTuple):
    """A call that took too long, or ended as none may: `wrong` says how. `ms`: CPU time when it was found, `again_ms`:
    when measured again, None where it was not reached; `fact`: it was too much each time; `rule`: what was read,
    `text`: what was accepted before; `seed`: of the grammar, `smaller`: a smaller one that shows the same."""

    notation: str
    call: str
    rule: str
    ms: float
    again_ms: list[float | None]
    fact: bool
    wrong: str
    text: str
    grammar: str
    smaller: str
    seed: int


class Result:
    """What was found so far; mutable."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._ms: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._counts: Counter[str] = Counter()
        self.grammars = 0
        self.findings: list[Finding] = []
        self.pending: list[Suspect] = []
        self.broken: list[Broken] = []

    def add(self, event: Tried | Broken) -> None:
        if isinstance(event, Broken):
            self.broken.append(event)
            return
        self.grammars += 1
        self._counts[f"grammars {event.kind}"] += 1
        for name, ms, refused in event.calls:
            self._ms[name].append(ms)
            self._counts[f"refused {name}"] += refused
        self.pending += event.suspects

    def measure(self) -> Iterator[Finding]:
        """Measure again what took too long, and yield it."""
        while self.pending:
            suspect = self.pending[0]
            again = measured_again(self._search, suspect)
            fact = all(call is not None and (call.wrong or call.ms > self._search.most_ms) for call in again)
            smaller = smaller_grammar(self._search, suspect) if fact else ""
            self.pending.pop(0)
            self.findings.append(
                _finding(suspect, [None if call is None else call.ms for call in again], fact, smaller)
            )
            yield self.findings[-1]

    def summary(self) -> dict[str, Any]:
        facts = [each for each in self.findings if each.fact]
        return {
            "grammars": self.grammars,
            **self._counts,
            "calls": sum(map(len, self._ms.values())),
            "by call": {name: _times(list(ms)) for name, ms in self._ms.items()},
            "found": len(facts),
            "noise": len(self.findings) - len(facts),
            "not measured again": len(self.pending),
            "processes that broke": len(self.broken),
            "most_ms": max((each.ms for each in facts), default=0),
        }

    def whole(self) -> dict[str, Any]:
        """Return the summary with all findings, those that were not measured again among them."""
        waiting = [_finding(suspect, [], False, "") for suspect in self.pending]
        return {
            "machine": common.machine(),
            **self.summary(),
            "findings": [each._asdict() for each in self.findings if each.fact],
            "noisy": [each._asdict() for each in (*self.findings, *waiting) if not each.fact],
            "broken": [each._asdict() for each in self.broken],
        }


def _finding(suspect: Suspect, again_ms: list[float | None], fact: bool, smaller: str) -> Finding:
    call, drawn = suspect.call, suspect.drawn
    return Finding(
        notation=drawn.kind,
        call=call.name,
        rule=call.rule,
        ms=round(call.ms, 1),
        again_ms=[None if ms is None else round(ms, 1) for ms in again_ms],
        fact=fact,
        wrong=call.wrong,
        text=call.text[-80:],
        grammar=drawn.grammar,
        smaller=smaller,
        seed=suspect.at,
    )


def _times(ms: list[float]) -> dict[str, float]:
    low, high = np.percentile(ms, (50, 99))
    above = {f"above {step}": sum(each > step for each in ms) for step in _STEPS_MS}
    return {"calls": len(ms), "p50": round(low, 3), "p99": round(high, 2), "most": round(max(ms), 1), **above}


@contextmanager
def _until_interrupted() -> Iterator[list[bool]]:
    """End the block, not the program, at SIGINT or SIGTERM; what is yielded is not empty then."""
    interrupted: list[bool] = []

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield interrupted
    except KeyboardInterrupt:
        interrupted.append(True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(search: Search, result: Result, first: int, seconds: float, limit: int, out: Path | None) -> None:
    """Search until the time is over, and print findings. What breaks the search itself ends it with what it has."""
    found = events(search, first, time.monotonic() + seconds)
    try:
        for event in found:
            if event is None:
                _measure(result, out)
            else:
                result.add(event)
            if limit and result.grammars >= limit:
                break
        found.close()  # nothing runs beside what is measured
        _measure(result, out)
    except Exception as error:
        result.broken.append(Broken(-1, f"the search failed: {type(error).__name__}: {error}"))


def _measure(result: Result, out: Path | None) -> None:
    for found in result.measure():
        _show(found)
    _keep(result, out)


def _show(found: Finding) -> None:
    said = found.wrong or f"{found.ms} ms, again {found.again_ms}"
    print(f"{'found' if found.fact else 'noise'}: {found.notation} {found.call} {said}, seed {found.seed}")
    print(
        f"reads {found.rule or '?'} after {found.text!r}:\n{(found.smaller or found.grammar)[:_PRINTED]}\n", flush=True
    )


def _keep(result: Result, out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps(result.whole()) + "\n", "utf-8")


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "grammars, within the time")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--minutes", type=float, help="instead of seconds")
    parser.add_argument("--only", choices=list(KINDS), default="all", help="kinds of grammars")
    parser.add_argument("--seed", type=int, default=0, help="a million grammars share one")
    parser.add_argument("--most-ms", type=float, default=50)
    parser.add_argument("--schemas", type=Path, help="real schemas to change, as lines of JSON")
    parser.add_argument("--grammars", type=Path, help="a folder with real grammars to change")
    parser.add_argument("--out", type=Path, help="a file for the result, written every few minutes")
    asked = parser.parse_args()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(errors="backslashreplace")  # names in a schema need not be characters
    seconds = asked.seconds if asked.minutes is None else asked.minutes * 60
    search = Search(asked.data, KINDS[asked.only], asked.schemas, asked.grammars, asked.most_ms)
    search.sources()  # what cannot be read ends the program here
    result = Result(search)
    with _until_interrupted() as interrupted:
        print(common.machine(), flush=True)
        _run(search, result, asked.seed * 1_000_000, seconds, asked.limit, asked.out)
    _keep(result, asked.out)
    if interrupted:
        print("interrupted: this is what was found until then")
    print(json.dumps(result.summary()), flush=True)
    common.report(asked, result.whole())


if __name__ == "__main__":
    main()
