"""Lark and GBNF grammars: how long masks and accepted tokens take, beside llguidance in the same run.

    python -m benchmarks.grammars [--data RANKS] [--limit N] [--rounds N] [--llguidance FOLDER] [--long BYTES] [--json]

RANKS: a tiktoken rank file or the folder of a `transformers` tokenizer. FOLDER: the site-packages of an environment of
its own in which llguidance is installed (`python -m venv V; V/bin/pip install llguidance`). Each text of
`grammar_samples` is tokenised; for every token the mask is filled, looked at and the token accepted. The first mask
counts compiling and a new matcher. Grammars take turns with the peer; times are CPU time of this process, the least of
`--rounds` for each token, with everything compiled anew in each round. The garbage collector is off meanwhile.
`--long`: a JSON text of so many bytes under the grammar in GBNF, and half of it, to see that time is linear.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks import common
from benchmarks.grammar_samples import JSON_GBNF, SAMPLES, Sample
from benchmarks.masks import Encode, load, quantiles
from sluicegate.grammar import LazyMatcher, Vocabulary, compile_lark
from sluicegate.plugins import Mask


class Follower(Protocol):
    """One text through one grammar."""

    def fill(self, row: Mask) -> object: ...

    def take(self, token: int) -> None: ...


class Ours:
    def __init__(self, matcher: LazyMatcher) -> None:
        self._matcher = matcher

    def fill(self, row: Mask) -> object:
        return self._matcher.fill_mask(row)

    def take(self, token: int) -> None:
        self._matcher.accept(token)


class Theirs:
    """A matcher of llguidance."""

    def __init__(self, matcher: Any, fill: Callable[..., None]) -> None:
        self._matcher, self._fill = matcher, fill

    def fill(self, row: Mask) -> None:
        self._fill(self._matcher, row.reshape(1, -1), 0)

    def take(self, token: int) -> None:
        self._matcher.consume_token(token)


Starter = Callable[[str], Follower]


def ours(vocabulary: Vocabulary) -> Starter:
    return lambda grammar: Ours(compile_lark(grammar, vocabulary).matcher())


def peer(folder: Path) -> Any:
    """Import llguidance from the site-packages of another environment; end with one line if it is not there."""
    sys.path.append(str(folder))
    try:
        return import_module("llguidance")
    except ImportError as error:
        raise SystemExit(f"{folder}: {error}; name the site-packages that hold llguidance with --llguidance") from None


def theirs(folder: Path, vocabulary: Vocabulary, encoding: Any) -> Starter:
    llguidance = peer(folder)
    fill: Callable[..., None] = import_module("llguidance.numpy").fill_next_token_bitmask
    to_lark: Callable[[str], str] = import_module("llguidance.gbnf_to_lark").gbnf_to_lark
    tokenizer = import_module("llguidance.tiktoken").lltokenizer_from_encoding(
        encoding, n_vocab=vocabulary.size, eos_token=vocabulary.eos_token_ids[0]
    )

    def start(grammar: str) -> Follower:
        text = to_lark(grammar) if "::=" in grammar else grammar
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(text))
        if matcher.is_error():
            raise SystemExit(f"llguidance: {matcher.get_error()}")
        return Theirs(matcher, fill)

    return start


class Times(NamedTuple):
    """Seconds: of the first mask with all before it; of each mask; of each accepted token."""

    first_s: float
    masks_s: list[float]
    takes_s: list[float]


def follow(start: Starter, grammar: str, texts: list[list[int]], words: int) -> Times:
    """Follow all texts, the first with a new grammar. Raises `SystemExit` where a mask leaves a token out."""
    row = np.zeros(words, np.int32)
    first = -1.0
    masks: list[float] = []
    takes: list[float] = []
    for tokens in texts:
        began = time.process_time()
        follower = start(grammar)
        for place, token in enumerate(tokens):
            mask = time.process_time()
            follower.fill(row)
            done = time.process_time()
            if first < 0:
                first = done - began
            elif place:
                masks.append(done - mask)
            if not int(row[token >> 5]) >> (token & 31) & 1:
                raise SystemExit(f"token {token} at {place} is not in the mask; the grammar begins {grammar[:40]!r}")
            mask = time.process_time()
            follower.take(token)
            takes.append(time.process_time() - mask)
    return Times(first, masks, takes)


def best(rounds: list[Times]) -> Times:
    """Return the least time of each token."""
    return Times(
        min(each.first_s for each in rounds),
        [min(times) for times in zip(*(each.masks_s for each in rounds), strict=True)],
        [min(times) for times in zip(*(each.takes_s for each in rounds), strict=True)],
    )


def row_of(name: str, who: str, times: Times) -> dict[str, Any]:
    masks = dict(quantiles(times.masks_s))
    return {
        "grammar": name,
        "engine": who,
        "first_ms": round(times.first_s * 1e3, 2),
        "mask_us": round(masks["avg"] * 1e6, 1),
        "mask_max_ms": round(masks["max"] * 1e3, 2),
        "accept_us": round(sum(times.takes_s) / len(times.takes_s) * 1e6, 1),
    }


def measure(
    sample: Sample, starters: dict[str, Starter], encode: Encode, rounds: int, words: int
) -> list[dict[str, Any]]:
    texts = [encode(text) for text in sample.texts]
    found: dict[str, list[Times]] = {who: [] for who in starters}
    for number in range(rounds):
        for who in list(starters)[:: 1 if number % 2 else -1]:
            gc.collect()
            gc.disable()
            found[who].append(follow(starters[who], sample.grammar, texts, words))
            gc.enable()
    return [row_of(sample.name, who, best(times)) for who, times in found.items()]


def long_text(size: int) -> str:
    """Make JSON of about `size` bytes, nested a little, no two records alike."""
    records: list[Any] = []
    length = 0
    while length < size:
        number = len(records)
        record = {"id": number, "name": f"record {number * 7919 % 10007}", "deep": [[{"x": [number % 7, None]}]]}
        records.append(record)
        length += len(json.dumps(record)) + 2
    return json.dumps(records)


def long_row(vocabulary: Vocabulary, encode: Encode, size: int) -> dict[str, Any]:
    tokens = encode(long_text(size))
    times = follow(ours(vocabulary), JSON_GBNF, [tokens], vocabulary.row_words)
    total = sum(times.masks_s) + sum(times.takes_s)
    return {"grammar": "json, GBNF", "bytes": size, "tokens": len(tokens), "s": round(total, 2),
            "mask_max_ms": round(max(times.masks_s) * 1e3, 2)}  # fmt: skip


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "grammars")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llguidance", type=Path, help="site-packages with llguidance")
    parser.add_argument("--long", type=int, default=0, help="bytes of a long text")
    asked = parser.parse_args()
    vocabulary, encode = load(asked.data)
    vocabulary.warm()
    starters: dict[str, Starter] = {"ours": ours(vocabulary)}
    if asked.llguidance:
        starters["llguidance"] = theirs(asked.llguidance, vocabulary, getattr(encode, "__self__", None))
    for start in starters.values():  # libraries and compiled loops are loaded before the clock runs
        start('start: "a"').fill(np.zeros(vocabulary.row_words, np.int32))
    rows = []
    print(common.machine())
    for sample in SAMPLES[: asked.limit or None]:
        for row in measure(sample, starters, encode, asked.rounds, vocabulary.row_words):
            rows.append(row)
            print("{grammar:20} {engine:12} first {first_ms:8} ms  mask {mask_us:8} us, at most {mask_max_ms:7} ms"
                  "  accept {accept_us:7} us".format(**row), flush=True)  # fmt: skip
    summary = totals(rows, list(starters))
    print(json.dumps(summary))
    for size in (asked.long // 2, asked.long) if asked.long else ():
        rows.append(long_row(vocabulary, encode, size))
        print(rows[-1])
    common.report(asked, {"machine": common.machine(), "rows": rows, "summary": summary})


def totals(rows: list[dict[str, Any]], engines: list[str]) -> dict[str, Any]:
    """Return the means over the grammars, by engine."""
    found: dict[str, Any] = {}
    for who in engines:
        mine = [row for row in rows if row["engine"] == who]
        found[who] = {
            "first_ms": round(sum(row["first_ms"] for row in mine) / len(mine), 2),
            "mask_and_accept_us": round(sum(row["mask_us"] + row["accept_us"] for row in mine) / len(mine), 1),
            "mask_max_ms": max(row["mask_max_ms"] for row in mine),
        }
    return found


if __name__ == "__main__":
    main()
