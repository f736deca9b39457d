"""Measure masks of JSON schemas: their time, and whether valid instances pass and invalid ones do not.

    python -m benchmarks.masks [--data FILE] [--tokenizer RANKS] [--limit N] [--order any] [--again] [--json]
    python -m benchmarks.masks --blocklist PHRASES [--limit N] [--json]

FILE: lines of JSON (perhaps gzipped), each `{"id", "schema", "tests": [{"valid", "data"}]}`. RANKS: a tiktoken rank
file or the folder of a `transformers` tokenizer. Instances are written as `json.dumps` writes them and tokenised; for
every token the mask is filled (TBM), looked at and the token accepted. TTFM = compile + new matcher + first mask. Times
are CPU time of this process; the garbage collector is off while they are taken. With `--again` every schema is compiled
and followed a second time, as for a second request, and timed separately. With `--blocklist` every schema is
followed with and without so many blocked phrases, one right after the other and each for the second time, and the two
are compared. The phrases begin with words of the instances, so that texts are often inside one, and end with words that
nobody uses, so that none is refused.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from sluicegate.grammar import GrammarError, GrammarOptions, LazyMatcher, Vocabulary, compile_json_schema

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
Encode = Callable[[str], list[int]]


def load(path: Path) -> tuple[Vocabulary, Encode]:
    """Read a tiktoken rank file or the folder of a `transformers` tokenizer; end with one line if it is neither."""
    try:
        return _load(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = f"{error}".partition("\n")[0]
        raise SystemExit(
            f"{path}: no tokenizer ({said}); name a rank file of tiktoken, or a tokenizer's folder, with --data or "
            "--tokenizer"
        ) from None


def _load(path: Path) -> tuple[Vocabulary, Encode]:
    if path.is_dir():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(path)
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        assert vocabulary.encode is not None
        return vocabulary, vocabulary.encode
    import tiktoken

    vocabulary = Vocabulary.from_tiktoken(path)
    ranks = {word: token for token, word in enumerate(vocabulary.words) if word}
    encoding = tiktoken.Encoding("bench", pat_str=_LLAMA3, mergeable_ranks=ranks, special_tokens={})
    return vocabulary, encoding.encode_ordinary


class Run:
    """Counts and times of one run; mutable."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode, options: GrammarOptions) -> None:
        self.vocabulary = vocabulary
        self.encode = encode
        self.options = options
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.first_s: list[float] = []
        self.masks_s: list[float] = []
        self.row = np.zeros(vocabulary.row_words, np.int32)

    def schema(self, record: dict[str, Any]) -> None:
        instances = [
            (test["valid"], self.encode(json.dumps(test["data"], ensure_ascii=False))) for test in record["tests"]
        ]
        self.counts["with instances"] += bool(instances)
        began = time.process_time()
        try:
            grammar = compile_json_schema(record["schema"], self.vocabulary, options=self.options)
            grammar.matcher().fill_mask(self.row)
        except GrammarError as error:
            self.counts["refused"] += 1
            self.refusals[type(error).__name__] += 1
            return
        self.first_s.append(time.process_time() - began)
        self.counts["compiled"] += 1
        right = bool(instances)
        for valid, tokens in instances:
            accepted = self._follow(grammar.matcher(), tokens)
            right = right and accepted == valid
            self.counts[f"{'valid' if valid else 'invalid'} {'accepted' if accepted else 'refused'}"] += 1
        self.counts["judged right"] += right

    def _follow(self, matcher: LazyMatcher, tokens: list[int]) -> bool:
        row, times = self.row, self.masks_s
        for token in tokens:
            began = time.process_time()
            matcher.fill_mask(row)
            times.append(time.process_time() - began)
            if not int(row[token >> 5]) >> (token & 31) & 1:
                return False
            matcher.accept(token)
        return matcher.can_stop

    def summary(self) -> dict[str, Any]:
        return {
            "schemas": dict(sorted(self.counts.items())),
            "refusals": dict(self.refusals),
            "ttfm_ms": {name: round(value * 1e3, 3) for name, value in quantiles(self.first_s)},
            "tbm_us": {name: round(value * 1e6, 2) for name, value in quantiles(self.masks_s)},
            "masks": len(self.masks_s),
            "kept": self._kept(),
        }

    def _kept(self) -> dict[str, int]:
        """Count the bytes of what is remembered for this vocabulary. Each part is bounded."""
        vocabulary = self.vocabulary
        return {
            "classes": vocabulary.classes.bytes,
            "rests": vocabulary.rests.bytes,
        }


def phrases(records: list[dict[str, Any]], count: int) -> tuple[str, ...]:
    """Make phrases of a word of the data and an invented word. Each first word occurs at most a few times, as in a list
    that somebody made."""
    texts = (json.dumps(test["data"], ensure_ascii=False) for record in records for test in record["tests"])
    words = sorted({word.lower() for text in texts for word in re.findall(r"[^\W\d_]{3,12}", text)})
    pick = random.Random(1)
    pick.shuffle(words)
    ends = [f"{pick.choice(_ONSETS)}{pick.choice(_CODAS)}{pick.choice(_ONSETS)}um" for _ in range(count)]
    return tuple(f"{words[i % len(words)]} {end}" for i, end in enumerate(ends))


_ONSETS = ("qu", "zw", "vl", "gn", "sph", "wr", "tz", "kv")
_CODAS = ("orb", "ixt", "umb", "elz", "akr", "ynd", "oft", "usk")


def blocked(records: list[dict[str, Any]], vocabulary: Vocabulary, encode: Encode, count: int) -> dict[str, Any]:
    """Measure masks with and without a blocklist."""
    listed = phrases(records, count)
    options = {"without": GrammarOptions(), "with": GrammarOptions(blocklist=listed)}
    began = time.process_time()
    compile_json_schema(True, vocabulary, options=options["with"]).matcher()
    prepared_s = time.process_time() - began
    runs = {name: Run(vocabulary, encode, given) for name, given in options.items()}
    first = {name: Run(vocabulary, encode, given) for name, given in options.items()}
    for number, record in enumerate(records):
        order = list(runs) if number % 2 else list(runs)[::-1]
        for each in (first, runs):
            for name in order:
                gc.collect()
                gc.disable()
                each[name].schema(record)
                gc.enable()
    found: dict[str, Any] = {"phrases": count, "worked out in_s": round(prepared_s, 2)}
    for title, each in (("masks", runs), ("first masks", first)):
        mean = {name: sum(run.masks_s) / len(run.masks_s) * 1e6 for name, run in each.items()}
        found[title] = {
            **{
                f"{name}, us": {key: round(1e6 * v, 1) for key, v in quantiles(run.masks_s)}
                for name, run in each.items()
            },
            "slower by": f"{100 * (mean['with'] / mean['without'] - 1):.1f} %",
        }
    found["accepted with and without"] = [dict(sorted(run.counts.items())) for run in runs.values()]
    return found


def quantiles(values: list[float]) -> Iterator[tuple[str, float]]:
    if not values:
        return
    ordered = sorted(values)
    yield "avg", sum(ordered) / len(ordered)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
        yield name, ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    yield "max", ordered[-1]


def main() -> None:
    parser = common.parser(__doc__, "maskbench.jsonl.gz", 150, "schemas, from one fixed shuffle")
    parser.add_tokenizer()
    parser.add_argument("--order", default="schema", choices=["schema", "required_first", "any"])
    parser.add_argument("--again", action="store_true", help="measure a second request with each schema apart")
    parser.add_argument(
        "--blocklist", type=int, default=0, metavar="PHRASES", help="compare with so many blocked phrases"
    )
    given = parser.parse_args()
    records = common.records(given.data, given.limit, fields=("schema", "tests"))
    began = time.process_time()
    vocabulary, encode = load(given.tokenizer)
    vocabulary.warm()
    ready_s = time.process_time() - began
    if given.blocklist:
        _print(given, {"machine": common.machine(), **blocked(records, vocabulary, encode, given.blocklist)})
        return
    options = GrammarOptions(property_order=given.order)
    run, second = Run(vocabulary, encode, options), Run(vocabulary, encode, options)
    for record in records:
        for each in (run, second) if given.again else (run,):
            gc.collect()
            gc.disable()
            each.schema(record)
            gc.enable()
    result = {"machine": common.machine(), "ready_s": round(ready_s, 2), **run.summary()}
    if given.again:
        result["second request"] = {name: second.summary()[name] for name in ("ttfm_ms", "tbm_us")}
    _print(given, result)


def _print(given: argparse.Namespace, result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name:18} {value}")
    common.report(given, result)


if __name__ == "__main__":
    main()
