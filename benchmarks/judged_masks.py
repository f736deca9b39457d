"""Compare masks with the tokens that trying the whole vocabulary gives.

    python -m benchmarks.judged_masks [--data FILE] [--tokenizer RANKS] [--limit N] [--places N] [--json]
    python -m benchmarks.judged_masks --limit 0 --write        # the committed baseline anew; `--check` compares with it

FILE: as for `benchmarks.masks`. Of each schema the valid instances are followed, or, where there are none, the
shortest text that it allows. At places drawn from the different situations on the way the mask is compared with
`mask_trial`, and a few tokens that it allows and refuses are given to `accept` itself. The baseline keeps a digest of
these masks for each schema, by its place in the data in order of `id`: masks that change are found without trying a
token.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.mask_trial import I32, Levels, Trials
from benchmarks.masks import Encode, load
from sluicegate.grammar import GrammarError, LazyGrammar, LazyMatcher, TokenRejected, compile_json_schema, is_compiled
from sluicegate.grammar.matching.state import ParserState

BASELINE = Path(__file__).parent / "results" / "judged_masks.json"
PLACES = 8
_REFUSED = "------"
_ACCEPTED_EACH = 8
_GROUP = re.compile(r"[A-Za-z]+(?:_[a-z]+)?")


class Verdict(NamedTuple):
    """Of one schema. `digest`: of its masks, six hex digits, or dashes where it was refused; `wrong`: what differs."""

    digest: str
    masks: int = 0
    wrong: tuple[str, ...] = ()


class Judge:
    """Judges schemas of one vocabulary; `places`: masks of a schema at most."""

    def __init__(self, levels: Levels, encode: Encode, places: int = PLACES) -> None:
        self.levels = levels
        self.vocabulary = levels.vocabulary
        self.encode = encode
        self.places = places
        self.row = np.zeros(self.vocabulary.row_words, np.int32)

    def schema(self, record: dict[str, Any], tried: bool = True) -> Verdict:
        """Judge the masks of a schema. Without `tried` only the digest is made."""
        try:
            grammar = compile_json_schema(record["schema"], self.vocabulary)
            texts = [self.encode(json.dumps(t["data"], ensure_ascii=False)) for t in record["tests"] if t["valid"]]
            if not texts:
                end = grammar.matcher().shortest_completion()
                texts = [list(end.tokens)] if end is not None else [[]]
            return self._along(grammar, texts, self._places(grammar, texts, record["id"]), tried)
        except GrammarError:
            return Verdict(_REFUSED)

    def _places(self, grammar: LazyGrammar, texts: list[list[int]], name: str) -> set[tuple[int, int]]:
        """Choose some of the places (text, token) where the situation is another than before."""
        found: dict[ParserState, tuple[int, int]] = {}  # not by id: a grammar that grows large forgets its states
        for number, text in enumerate(texts):
            for at, matcher in self._follow(grammar, text):
                found.setdefault(matcher._at, (number, at))
        distinct = list(found.values())
        return set(random.Random(name).sample(distinct, min(self.places, len(distinct))))

    def _follow(self, grammar: LazyGrammar, text: list[int]) -> Iterator[tuple[int, LazyMatcher]]:
        """Yield the matcher before each token, and at the end, as far as the grammar goes along."""
        matcher = grammar.matcher()
        for at, token in enumerate(text):
            yield at, matcher
            try:
                matcher.accept(token)
            except TokenRejected:
                return
        yield len(text), matcher

    def _along(
        self, grammar: LazyGrammar, texts: list[list[int]], places: set[tuple[int, int]], tried: bool
    ) -> Verdict:
        digest, wrong, trials = blake2b(digest_size=3), [], Trials(self.levels, grammar._states)
        for number, text in enumerate(texts):
            for at, matcher in self._follow(grammar, text):
                if (number, at) not in places:
                    continue
                matcher.fill_mask(self.row)
                digest.update(self.row.tobytes())
                if tried:
                    difference = self._differs(self.row, trials.row(matcher)) or self._accepts_otherwise(matcher, at)
                    wrong += [f"token {at} of text {number}: {difference}"] if difference else []
        return Verdict(digest.hexdigest(), len(places), tuple(wrong))

    def _differs(self, mask: I32, tried: I32) -> str:
        differences = []
        for said, bits in (("allowed but refused", mask & ~tried), ("refused but taken", tried & ~mask)):
            tokens = _tokens(bits)
            if tokens:
                differences.append(f"{len(tokens)} tokens are {said}, {[self.vocabulary.words[t] for t in tokens[:3]]}")
        return "; ".join(differences)

    def _accepts_otherwise(self, matcher: LazyMatcher, at: int) -> str:
        pick, allowed = random.Random(at), _tokens(self.row)
        others = [pick.randrange(self.vocabulary.size) for _ in range(_ACCEPTED_EACH)]
        for token in (*pick.sample(allowed, min(_ACCEPTED_EACH, len(allowed))), *others):
            try:
                matcher.fork().accept(token)
                taken = True
            except TokenRejected:
                taken = False
            if taken != bool(int(self.row[token >> 5]) >> (token & 31) & 1):
                return f"accept {'takes' if taken else 'refuses'} {self.vocabulary.words[token]!r}, the mask does not"
        return ""


def _tokens(row: I32) -> list[int]:
    found: list[int] = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
    return found


def group_of(name: str) -> str:
    """Return the collection that a schema comes from, read from its `id`."""
    found = _GROUP.match(name)
    return found.group() if found else name


def numbered(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return all records with their places in order of `id`, shuffled the same way each time."""
    records = common.records(path, fields=("id", "schema", "tests"))
    places = {name: k for k, name in enumerate(sorted(record["id"] for record in records))}
    return [(places[record["id"]], record) for record in records]


def baseline(verdicts: dict[int, tuple[str, Verdict]], places: int) -> dict[str, Any]:
    groups: dict[str, Counter[str]] = {}
    for name, verdict in verdicts.values():
        counts = groups.setdefault(group_of(name), Counter(schemas=0, refused=0, masks=0, wrong=0))
        counts.update(schemas=1, refused=verdict.digest == _REFUSED, masks=verdict.masks, wrong=len(verdict.wrong))
    return {
        "places": places,
        "groups": {name: dict(counts) for name, counts in sorted(groups.items())},
        "digests": [verdicts[k][1].digest if k in verdicts else "" for k in range(max(verdicts, default=-1) + 1)],
    }


def compared(verdicts: dict[int, tuple[str, Verdict]], known: dict[str, Any]) -> list[str]:
    """List the names of schemas whose masks are not those of the baseline. One that either refused is left out."""
    digests = known["digests"]
    return [
        name
        for k, (name, verdict) in verdicts.items()
        if _REFUSED not in (verdict.digest, digests[k]) and verdict.digest != digests[k]
    ]


def main() -> None:
    parser = common.parser(__doc__, "maskbench.jsonl.gz", 150, "schemas, from one fixed shuffle")
    parser.add_tokenizer()
    parser.add_argument("--places", type=int, default=PLACES, help="masks of a schema at most")
    parser.add_argument("--write", action="store_true", help="write the baseline; needs `--limit 0`")
    parser.add_argument("--check", action="store_true", help="compare with the baseline as well")
    given = parser.parse_args()
    if is_compiled():
        parser.error("the judge derives from classes of the grammar, which compiled ones refuse: `make interpreted`")
    found, took = _judged(given)
    wrong = [f"{name}: {difference}" for name, verdict in found.values() for difference in verdict.wrong]
    report = baseline(found, given.places)
    total: Counter[str] = Counter()
    for counts in report["groups"].values():
        total.update(counts)
    print(*wrong, *(f"{name:24} {counts}" for name, counts in report["groups"].items()), sep="\n")
    print(f"together {dict(total)} in {took:.0f} CPU s")
    if given.check:
        print("not as in the baseline:", compared(found, json.loads(BASELINE.read_text("utf-8"))))
    if given.write:
        BASELINE.write_text(_lines(report), "utf-8")
    common.report(given, {**total, "differing": wrong})


def _judged(given: argparse.Namespace) -> tuple[dict[int, tuple[str, Verdict]], float]:
    vocabulary, encode = load(given.tokenizer)
    judge = Judge(Levels(vocabulary), encode, given.places)
    began = time.process_time()
    records = numbered(given.data)[: given.limit or None]
    if given.write and given.limit:
        raise SystemExit("the baseline holds every schema: --limit 0")
    return {k: (record["id"], judge.schema(record)) for k, record in records}, time.process_time() - began


def _lines(report: dict[str, Any]) -> str:
    """Return the report as JSON with a group in a line, and twelve digests: a change of few schemas is a change of few
    lines."""
    digests = [json.dumps(digest) for digest in report["digests"]]
    rows = ",\n  ".join(", ".join(digests[k : k + 12]) for k in range(0, len(digests), 12))
    groups = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(counts)}" for name, counts in report["groups"].items())
    head = f'"places": {report["places"]}'
    return f'{{\n {head},\n "groups": {{\n  {groups}\n }},\n "digests": [\n  {rows}\n ]\n}}\n'


if __name__ == "__main__":
    main()
