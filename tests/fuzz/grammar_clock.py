"""Fuzz what following a grammar costs: random grammars that are dear, on a real vocabulary, each call by the CPU clock.

    python -m tests.fuzz.grammar_clock [--minutes 10] [--seed 0] [--only lark] [--data RANKFILE]

Random allowed tokens are accepted under a bound of a few milliseconds a call, and where that is too little, once more
under the longer one. Every case has a seed of its own and is printed with it if it fails: `--case lark:123` runs one
again. A case fails if a call takes longer than its bound and `SLACK_S` (compiling: `COMPILE_S`), raised or not; if
anything but a `GrammarError` is raised; if the mask allows a token that `accept` refuses; if an error has moved the
matcher; or if the same tokens lead elsewhere with a larger bound from the start. RANKFILE: a tiktoken rank file.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sluicegate.grammar import (
    GrammarError,
    GrammarOptions,
    LazyGrammar,
    LazyMatcher,
    TokenRejected,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
)
from sluicegate.grammar.budget.clock import worked_s
from sluicegate.plugins import GrammarTooCostly
from tests.fuzz import costly
from tests.fuzz.cases import Finding, unexpected

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "llama3" / "tokenizer.model"
BOUNDS_S = (0.005, 0.1)
"""Of a call within a step, and of its second try."""
SLACK_S = 0.05
"""What a call may take past its bound: a few hundred small steps, and one of numpy over the whole vocabulary."""
COMPILE_S = 6.0
COMPARE_S = 2.0
FEW = GrammarOptions()


class Walk:
    """One text through one grammar; `slowest`: seconds past the bound, by what was called."""

    def __init__(self, make: Callable[[], LazyGrammar], pick: random.Random) -> None:
        self._make = make
        self.compiled: LazyGrammar = _timed("compile", COMPILE_S, make)
        self.matcher = self.compiled.matcher()
        self._pick = pick
        self._row = np.zeros(self.compiled.vocabulary.row_words, np.int32)
        self.tokens: list[int] = []
        self.costly = 0

    def go(self, steps: int) -> str:
        """Walk on, and return how the walk ended."""
        for _ in range(steps):
            found = self._allowed()
            if found is None:
                return "costly"
            ends = set(self.compiled.vocabulary.eos_token_ids)
            going = [token for token in found.tolist() if token not in ends]
            if not going:
                if not self.matcher.can_stop:
                    raise Finding("the mask leaves nothing, and the text is not whole")
                return "whole"
            self._look()
            for token in self._pick.choices(going, k=2):
                if not self._accept(token):
                    return "costly"
                self._call("rollback", self.matcher.rollback, 1)
            token = self._pick.choice(going)
            if not self._accept(token):
                return "costly"
            self.tokens.append(token)
        return "long"

    def compare(self) -> None:
        """Check that what was interrupted on the way leads to the same mask."""
        other, row = self._make().matcher(), np.zeros_like(self._row)
        began = time.thread_time()
        try:
            for token in self.tokens:
                other.bound(1.0)
                other.accept(token)
                if time.thread_time() - began > COMPARE_S:
                    return
            other.fill_mask(row)
            self.matcher.bound(1.0)
            self.matcher.fill_mask(self._row)
        except GrammarTooCostly:
            return
        if not np.array_equal(row, self._row):
            raise Finding(f"the mask after {self._text()!r} is another one where nothing was interrupted")

    def _look(self) -> None:
        kind = self._pick.randrange(6)
        if kind == 0:
            self._call("forced_tokens", self.matcher.forced_tokens)
        elif kind == 1:
            self._call("shortest_completion", self.matcher.shortest_completion)
        elif kind == 2:
            self._call("can_stop", lambda: self.matcher.can_stop)
            self._call("is_finished", lambda: self.matcher.is_finished)

    def _allowed(self) -> Any:
        """Return the allowed tokens; None where they cost too much."""
        if not self._tried("fill_mask", self.matcher.fill_mask, self._row):
            return None
        return np.flatnonzero(np.unpackbits(self._row.view(np.uint8), bitorder="little"))

    def _accept(self, token: int) -> bool:
        try:
            return self._tried("accept", self.matcher.accept, token)
        except TokenRejected:
            word = self.compiled.vocabulary.words[token]
            raise Finding(f"the mask allows {word!r} after {self._text()!r}, and accept does not") from None

    def _tried(self, what: str, act: Callable[..., object], *arguments: object) -> bool:
        for bound_s in BOUNDS_S:
            before = _place(self.matcher)
            try:
                self._call(what, act, *arguments, bound_s=bound_s)
            except GrammarTooCostly:
                self.costly += 1
                if _place(self.matcher) != before:
                    raise Finding(f"{what} has moved the matcher and raised an error") from None
            else:
                return True
        return False

    def _call(self, what: str, act: Callable[..., object], *arguments: object, bound_s: float = BOUNDS_S[0]) -> None:
        self.matcher.bound(bound_s)
        _timed(what, bound_s + SLACK_S, act, *arguments)

    def _text(self) -> bytes:
        return b"".join(self.compiled.vocabulary.words[token] for token in self.tokens)


def _timed(what: str, most_s: float, act: Callable[..., Any], *arguments: object) -> Any:
    """Call `act`. Loops that are made ready on the way do not count: a server does that before it is ready."""
    began = worked_s()
    try:
        return act(*arguments)
    finally:
        took = worked_s() - began
        if took > most_s:
            raise Finding(f"{what} took {took:.3f} s of CPU time, {most_s:g} are allowed")


def _place(matcher: LazyMatcher) -> Any:
    """Return where the matcher stands: all that `accept` moves."""
    tape = matcher._tape
    return matcher._at, len(matcher._past), matcher._finished, None if tape is None else tape.checkpoint()


def _lark(pick: random.Random, vocabulary: Vocabulary) -> Callable[[], LazyGrammar]:
    text = costly.lark(pick)
    return lambda: compile_lark(text, vocabulary, options=FEW)


def _gbnf(pick: random.Random, vocabulary: Vocabulary) -> Callable[[], LazyGrammar]:
    text = costly.gbnf(pick)
    return lambda: compile_lark(text, vocabulary, options=FEW)


def _schema(pick: random.Random, vocabulary: Vocabulary) -> Callable[[], LazyGrammar]:
    schema = costly.schema(pick)
    return lambda: compile_json_schema(schema, vocabulary, options=FEW)


def _tag(pick: random.Random, vocabulary: Vocabulary) -> Callable[[], LazyGrammar]:
    value = costly.tag(pick)
    return lambda: compile_structural_tags(value, vocabulary, options=FEW)


TARGETS = {"lark": _lark, "gbnf": _gbnf, "schema": _schema, "tag": _tag}


def case(name: str, seed: int, vocabulary: Vocabulary, steps: int = 25) -> str:
    """Try one case. Return what came of it: how the text ended, a kind of refusal, or a finding."""
    pick = random.Random(f"{name}:{seed}")
    try:
        walk = Walk(TARGETS[name](pick, vocabulary), pick)
        outcome = walk.go(steps)
        if walk.costly and outcome != "costly":
            walk.compare()
        return outcome
    except GrammarError as error:
        return type(error).__name__
    except Finding as error:
        return f"FINDING {error}"
    except Exception as error:
        return unexpected(error)


def run(vocabulary: Vocabulary, seed: int, ends_s: float, names: list[str], cases: int | None = None) -> Counter[str]:
    """Try cases until the monotonic clock says `ends_s`, or so many `cases` of each. Full collections are made between
    them."""
    counts: Counter[str] = Counter()
    for name in names:
        case(name, -1, vocabulary)  # compiles what is compiled once
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        at = seed
        while time.monotonic() < ends_s and (cases is None or at < seed + cases):
            for name in names:
                outcome = case(name, at, vocabulary)
                counts[f"{name} {outcome.split(' ')[0]}"] += 1
                if outcome.startswith("FINDING"):
                    print(f"{name}:{at} {outcome}", flush=True)
            at += 1
            if at % 8 == 0:
                gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--data", type=Path, default=DATA, help="a tiktoken rank file")
    parser.add_argument("--case", help="NAME:SEED, run once")
    asked = parser.parse_args()
    vocabulary = Vocabulary.from_tiktoken(asked.data)
    if asked.case:
        name, _, seed = asked.case.partition(":")
        case("schema", -1, vocabulary)
        print(case(name, int(seed), vocabulary))
        return
    ends_s = time.monotonic() + 60 * asked.minutes
    counts = run(vocabulary, asked.seed, ends_s, [asked.only] if asked.only else list(TARGETS))
    print(json.dumps(dict(sorted(counts.items()))))


if __name__ == "__main__":
    main()
