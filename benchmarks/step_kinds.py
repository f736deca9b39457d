"""Break down the time of a token step: by what is read, and by whether mask and token were seen before.

    python -m benchmarks.step_kinds [--data FILE] [--tokenizer RANKS] [--limit N] [--llguidance FOLDER] [--json]

Schemas, instances, clocks and the peer are those of `benchmarks.token_steps`. A place is inside a name, a string, a
number or word, or at punctuation. A mask is new where nobody was in this state of this grammar; names are asked about
where an object may have names that are not listed. A token is known where it was accepted in this state before, and
nothing is asked about it.
"""

from __future__ import annotations

import gc
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.grammars import Follower
from benchmarks.masks import Encode, load
from benchmarks.token_steps import Engine, theirs
from sluicegate.grammar import GrammarError, LazyMatcher, TokenRejected, Vocabulary, compile_json_schema
from sluicegate.plugins import Mask


class Step(NamedTuple):
    """One step. `kind`: what is read, the mask, the token. Times in seconds."""

    kind: tuple[str, str, str]
    mask_s: float
    take_s: float


def places(words: list[bytes]) -> list[str]:
    """Return the kind of JSON text (name, string, scalar, punctuation) at the beginning of each of `words`."""
    found, brackets = [], [""]
    inside, named, escaped = "punctuation", False, False
    for word in words:
        found.append(inside)
        for byte in word:
            letter = chr(byte)
            if inside in ("name", "string"):
                if escaped or letter == "\\":
                    escaped = not escaped
                elif letter == '"':
                    inside = "punctuation"
                continue
            if letter == '"':
                inside = "name" if brackets[-1] == "{" and not named else "string"
            else:
                inside = "punctuation" if letter in "{}[],: \t\r\n" else "scalar"
            if letter in "{[":
                brackets.append(letter)
            elif letter in "}]":
                brackets.pop()
            if letter in "{[]},:":
                named = letter in ":]}"
    return found


class Followed:
    """Steps along the instances of one schema."""

    def __init__(self, row: Mask) -> None:
        self.row = row
        self.steps: list[Step] = []

    def ours(self, matcher: LazyMatcher, tokens: list[int], read: list[str]) -> None:
        for place, token in enumerate(tokens):
            state = matcher._at
            mask = "mask known" if state.mask is not None else "mask new"
            known = token in state.tokens
            if not self._step(matcher.fill_mask, matcher.accept, token):
                return
            if state.mask is not None and state.mask.doubts:
                mask += ", names asked about"
            taken = "token known" if known else "token new" if token in state.tokens else "token asks about names"
            self.steps[-1] = self.steps[-1]._replace(kind=(read[place], mask, taken))

    def theirs(self, matcher: Follower, tokens: list[int]) -> None:
        for token in tokens:
            if not self._step(matcher.fill, matcher.take, token):
                return

    def _step(self, fill: Callable[[Mask], object], take: Callable[[int], None], token: int) -> bool:
        clock, row = time.process_time, self.row
        began = clock()
        fill(row)
        masked = clock() - began
        if not int(row[token >> 5]) >> (token & 31) & 1:
            return False
        began = clock()
        take(token)
        self.steps.append(Step(("", "", ""), masked, clock() - began))
        return True


def followed(
    schema: Any, texts: list[list[int]], vocabulary: Vocabulary, peer: Engine | None
) -> tuple[list[Step], list[Step] | None] | None:
    """Return the steps of ours, and of the peer, None where one of them refuses or they part."""
    row = np.zeros(vocabulary.row_words, np.int32)
    own, other = Followed(row), Followed(row)
    try:
        compiled = compile_json_schema(schema, vocabulary)
        compiled.matcher().fill_mask(row)
        for tokens in texts:
            own.ours(compiled.matcher(), tokens, places([vocabulary.words[token] for token in tokens]))
        if peer is None:
            return own.steps, None
        start = peer.compile(schema)
        start().fill(row)
        for tokens in texts:
            other.theirs(start(), tokens)
    except (ValueError, TokenRejected, GrammarError):
        return None
    return (own.steps, other.steps) if len(own.steps) == len(other.steps) else None


def table(steps: list[tuple[Step, Step | None]], part: slice) -> dict[str, list[float]]:
    """Return by kind: the share of all steps, microseconds of our mask and token and of the peer's, the share of our
    time. `part`: which parts of the kinds are told apart."""
    groups: dict[str, list[list[float]]] = defaultdict(list)
    for step, peer in steps:
        other = [peer.mask_s, peer.take_s] if peer is not None else [0.0, 0.0]
        groups["; ".join(step.kind[part])].append([step.mask_s, step.take_s, *other])
    whole = sum(step.mask_s + step.take_s for step, _ in steps)
    found = {}
    for name, times in groups.items():
        total = np.sum(times, axis=0)
        means = (total / len(times) * 1e6).tolist()
        found[name] = [len(times) / len(steps), *means, float(total[0] + total[1]) / whole]
    return dict(sorted(found.items(), key=lambda item: -item[1][-1]))


def measured(
    records: list[Any], vocabulary: Vocabulary, encode: Encode, peer: Engine | None
) -> list[tuple[Step, Step | None]]:
    """Return all steps of the schemas that both follow alike."""
    steps: list[tuple[Step, Step | None]] = []
    for record in records:
        texts = [encode(json.dumps(test["data"], ensure_ascii=False)) for test in record["tests"]]
        gc.collect()
        gc.disable()
        found = followed(record["schema"], texts, vocabulary, peer)
        gc.enable()
        if found is not None:
            other: list[Step | None] = [*found[1]] if found[1] is not None else [None] * len(found[0])
            steps += zip(found[0], other, strict=True)
    return steps


def main() -> None:
    parser = common.parser(__doc__, "maskbench.jsonl.gz", 600, "schemas, from one fixed shuffle")
    parser.add_tokenizer()
    parser.add_argument("--llguidance", type=Path, help="site-packages with the peer")
    given = parser.parse_args()
    vocabulary, encode = load(given.tokenizer)
    peer = theirs(given.llguidance, vocabulary, encode) if given.llguidance else None
    steps = measured(common.records(given.data, given.limit, fields=("schema", "tests")), vocabulary, encode, peer)
    print(f"# {common.machine()}; {len(steps)} steps")
    parts = {"place": slice(0, 1), "mask": slice(1, 2), "token": slice(2, 3), "all": slice(0, 3)}
    tables = {name: table(steps, part) for name, part in parts.items()}
    for found in tables.values():
        print(f"{'':60} {'of steps':>8} {'mask':>8} {'token':>8} {'peer':>8} {'token':>8} {'of time':>8}")
        for name, (share, *means, part) in found.items():
            print(f"{name:60} {share:8.1%}", *(f"{mean:8.2f}" for mean in means), f"{part:8.1%}")
    common.report(given, tables)


if __name__ == "__main__":
    main()
