"""Search random grammars and schemas for calls of a matcher that take more than 50 ms of CPU time.

    python -m benchmarks.bounded [--data RANKS] [--seconds S] [--limit N] [--only KINDS] [--seed N] [--most-ms MS]
        [--json]

RANKS: a tiktoken rank file or the folder of a `transformers` tokenizer. Grammars in Lark and in GBNF, structural tags
and JSON schemas are drawn (`benchmarks.random_schemas`, half of them with members in any order); each that compiles is
followed by random tokens of its masks, N of them at most, until the seconds are over. Every `fill_mask`, `accept`,
`rollback`, `forced_tokens` and `shortest_completion` is timed (CPU time of this thread, without collections of
garbage); those above `--most-ms` are listed, with the grammar made smaller by leaving out lines, alternatives and
properties for as long as a call stays as slow, 15 s at most. A call that ends with a typed error in time is no finding;
how many did is counted.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks import common, random_schemas
from benchmarks.masks import load
from sluicegate.grammar import (
    GrammarError,
    GrammarOptions,
    LazyGrammar,
    LazyMatcher,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
)
from sluicegate.grammar.budget.clock import worked_s
from sluicegate.grammar.completion import Completion

_STEPS = 16
_SOME, _MARKS = 40, frozenset(b'{}[]":,<>\n')
"""Tokens of which the one with the most marks is accepted."""
_SHRINKS = 40
_PRINTED = 2_000
_IN_JSON = ("schema", "any order", "tags")
_SHRINK_S = 15.0
"""CPU time for making one grammar smaller."""
_TERMINALS = (
    *('"a"', '"if"', '"in"', '"("', '")"', '","', '"+"', '"-"', '"\\n"', '"<"', '">"', '":"', '" "'),
    *("/[a-z]+/", "/[A-Za-z_]\\w*/", "/[0-9]+/", "/-?[0-9]+(\\.[0-9]+)?/", '/"[^"]*"/', "/[^<&]+/", "/.*/", "/\\s+/"),
    *("/(ab|ba)+/", "/[a-z]{1,20}/", "/\\w+@\\w+/", "/#[^\\n]*\\n/", "/[^ ]+/", "/.{0,30}/", '/"([^"\\\\]|\\\\.)*"/'),
)
_GBNF_TERMINALS = (
    *(
        '"a"',
        '"if"',
        '"("',
        '")"',
        '","',
        '"+"',
        "[a-z]",
        "[a-z]+",
        "[0-9]+",
        "[ \\t\\n]*",
        '[^"]*',
        "[^<]+",
        "[a-z0-9_]*",
    ),
    *('("ab" | "ba")+', "[a-z]{1,20}", '"\\"" [^"]* "\\""', "."),
)
_IGNORED = ('\n%ignore " "', "\n%ignore /\\s+/", "", "")


class SlowCall(NamedTuple):
    """A call that took too long. `text`: the text accepted before it."""

    kind: str
    call: str
    ms: float
    text: str
    grammar: str


Compile = Callable[[str, Vocabulary], LazyGrammar]


# --- grammars ---------------------------------------------------------------------------------------------------------


def rules(pick: random.Random, terminals: tuple[str, ...], define: str, first: str) -> str:
    """Draw rules of all shapes: ambiguous, empty, recursive from either side or in the middle, useless."""
    names = [first, "x", "y", "z", "v", "w"][: pick.randint(1, 6)]

    def expression(depth: int) -> str:
        kind = pick.random()
        if depth == 0 or kind < 0.35:
            return pick.choice(names if pick.random() < 0.5 else terminals)
        if kind < 0.65:
            return " ".join(expression(depth - 1) for _ in range(pick.randint(1, 4)))
        inner = " | ".join(expression(depth - 1) for _ in range(pick.randint(1, 4)))
        return f"({inner})" if kind < 0.8 else f"({inner}){pick.choice('?*+')}"

    return "\n".join(
        f"{name}{define} " + " | ".join(expression(2) for _ in range(pick.randint(1, 3))) for name in names
    )


def lark(pick: random.Random) -> str:
    return rules(pick, _TERMINALS, ":", "start") + pick.choice(_IGNORED)


def gbnf(pick: random.Random) -> str:
    return rules(pick, _GBNF_TERMINALS, " ::=", "root")


def tags(pick: random.Random) -> dict[str, Any]:
    begins = [f"<{pick.choice(('f', 'call', 'fn='))}{n}>" for n in range(pick.randint(1, 5))]
    ends = [pick.choice(("</f>", "END", ".")) for _ in begins]
    structures = [
        {"begin": begin, "schema": random_schemas.schema(pick), "end": end}
        for begin, end in zip(begins, ends, strict=True)
    ]
    return {"structures": structures, "triggers": [pick.choice(("<", begins[0][:2]))]}


def drawn(pick: random.Random, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Return the kind of a grammar, and the grammar as a text."""
    kind = pick.choice(kinds)
    if kind == "lark":
        return kind, lark(pick)
    if kind == "gbnf":
        return kind, gbnf(pick)
    return kind, json.dumps(tags(pick) if kind == "tags" else random_schemas.schema(pick))


def _schema(order: Literal["schema", "any"]) -> Compile:
    options = GrammarOptions(property_order=order)
    return lambda text, vocabulary: compile_json_schema(json.loads(text), vocabulary, options=options)


COMPILERS: dict[str, Compile] = {
    "lark": compile_lark,
    "gbnf": compile_lark,
    "schema": _schema("schema"),
    "any order": _schema("any"),
    "tags": lambda text, vocabulary: compile_structural_tags(json.loads(text), vocabulary),
}
KINDS = {
    "all": ("lark", "lark", "gbnf", "gbnf", "schema", "any order", "tags"),
    "schema": ("schema", "any order"),
    "rules": ("lark", "gbnf", "tags"),
}


# --- one grammar ------------------------------------------------------------------------------------------------------


class TimedCall(NamedTuple):
    """`text`: what was accepted before it; `refused`: it ended with an error, or, where a way to the end was asked,
    with none."""

    name: str
    ms: float
    text: str
    refused: bool


class TimedMatcher:
    """Wraps a matcher and times its calls."""

    def __init__(self, matcher: LazyMatcher, vocabulary: Vocabulary) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._row = np.zeros(vocabulary.row_words, np.int32)
        self.calls: list[TimedCall] = []
        self.text = b""

    def _timed(self, name: str, act: Callable[..., Any], *arguments: Any) -> Any:
        began, found, refused = worked_s(), None, True
        try:
            found = act(*arguments)
            refused = name == "shortest_completion" and found is None
        finally:
            self.calls.append(TimedCall(name, (worked_s() - began) * 1e3, self.text.decode(errors="replace"), refused))
        return found

    def step(self, pick: random.Random) -> bool:
        """Ask for a mask and what else can be asked, and accept one of the tokens; False at the end."""
        self._timed("fill_mask", self._matcher.fill_mask, self._row)
        self._timed("forced_tokens", self._matcher.forced_tokens)
        finish = None
        if pick.random() < 0.3:
            finish = self._timed("shortest_completion", self._matcher.shortest_completion)
        bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")
        offered = np.setdiff1d(np.flatnonzero(bits), self._vocabulary.eos_token_ids)
        if not len(offered):
            return False
        for again in range(2 if pick.random() < 0.2 else 1):
            if again:
                self._timed("rollback", self._matcher.rollback, 1)
            token = self._drawn(offered, finish, pick)
            self._timed("accept", self._matcher.accept, token)
        self.text += self._vocabulary.words[token]
        return True

    def _drawn(self, offered: Any, finish: Completion | None, pick: random.Random) -> int:
        """Draw a token: of all, of those of a few that change most where the text stands, or on the way to the end."""
        if finish is not None and finish.tokens and pick.random() < 0.5:
            return finish.tokens[0]
        if pick.random() < 0.5:
            some = pick.sample(offered.tolist(), min(len(offered), _SOME))
            marks = {token: sum(map(_MARKS.__contains__, self._vocabulary.words[token])) for token in some}
            return int(max(some, key=marks.__getitem__))
        return int(pick.choice(offered))


def calls_of(kind: str, grammar: str, vocabulary: Vocabulary, seed: int) -> list[TimedCall] | None:
    """Return the calls in their order; None for a grammar that does not compile."""
    try:
        compiled = COMPILERS[kind](grammar, vocabulary)
    except GrammarError:
        return None
    clocked = TimedMatcher(compiled.matcher(), vocabulary)
    pick = random.Random(seed)
    try:
        for _ in range(_STEPS):
            if not clocked.step(pick):
                break
    except GrammarError:
        pass
    return clocked.calls


def slowest(kind: str, grammar: str, vocabulary: Vocabulary, seed: int) -> SlowCall | None:
    calls = calls_of(kind, grammar, vocabulary, seed)
    if not calls:
        return None
    worst = max(calls, key=lambda call: call.ms)
    return SlowCall(kind, worst.name, round(worst.ms, 1), worst.text[-80:], grammar)


def smaller(kind: str, grammar: str) -> Iterator[str]:
    """Yield the grammar with something left out."""
    if kind in _IN_JSON:
        yield from (json.dumps(each) for each in _parts_left_out(json.loads(grammar)))
        return
    lines = grammar.split("\n")
    yield from ("\n".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines) - 1, 0, -1))
    for way in re.finditer(r" \| [^|\n()]+| [^|\n() ]+(?= )|[?*+](?=\n| )", grammar):
        yield grammar[: way.start()] + grammar[way.end() :]


def _parts_left_out(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield {key: each for key, each in value.items() if key != name}
            yield from ({**value, name: each} for each in _parts_left_out(value[name]))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
            yield from ([*value[:at], each, *value[at + 1 :]] for each in _parts_left_out(value[at]))


def shrunk(found: SlowCall, vocabulary: Vocabulary, seed: int, most_ms: float) -> SlowCall:
    until = worked_s() + _SHRINK_S
    for _ in range(_SHRINKS):
        for candidate in smaller(found.kind, found.grammar):
            if worked_s() > until:
                return found
            try:
                less = slowest(found.kind, candidate, vocabulary, seed)
            except Exception as error:  # what is left is no grammar
                if not isinstance(error, GrammarError | ValueError | KeyError | TypeError):
                    raise
                continue
            if less is not None and less.ms > most_ms:
                found = less
                break
        else:
            break
    return found


# --- all --------------------------------------------------------------------------------------------------------------


class TriedGrammar(NamedTuple):
    """A grammar that compiled; `slow`: the slow call that was found, if any."""

    kind: str
    calls: list[TimedCall]
    slow: SlowCall | None


def search(
    vocabulary: Vocabulary, kinds: tuple[str, ...], seed: int, seconds: float, most_ms: float
) -> Iterator[TriedGrammar]:
    """Try grammars until the time is over; a million of them share a seed."""
    until = time.monotonic() + seconds
    for at in range(seed * 1_000_000, (seed + 1) * 1_000_000):
        if time.monotonic() > until:
            return
        kind, grammar = drawn(random.Random(at), kinds)
        calls = calls_of(kind, grammar, vocabulary, at)
        if calls is None:
            continue
        found = None
        if max((call.ms for call in calls), default=0.0) > most_ms:
            again = slowest(kind, grammar, vocabulary, at)  # a slow moment of the machine is no finding
            if again is not None and again.ms > most_ms:
                found = shrunk(again, vocabulary, at, most_ms)
        yield TriedGrammar(kind, calls, found)


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "grammars, within the seconds")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", choices=list(KINDS), default="all", help="kinds of grammars")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-ms", type=float, default=50)
    asked = parser.parse_args()
    vocabulary, _ = load(asked.data)
    vocabulary.warm()
    for kind, text in (("lark", 'start: "a"'), ("schema", "{}")):  # compiled loops are loaded before the clock runs
        calls_of(kind, text, vocabulary, 0)
    print(common.machine())
    counts: Counter[str] = Counter()
    slow: list[SlowCall] = []
    for tried in islice(
        search(vocabulary, KINDS[asked.only], asked.seed, asked.seconds, asked.most_ms), asked.limit or None
    ):
        counts["grammars"] += 1
        counts["calls"] += len(tried.calls)
        counts.update(f"refused {call.name}" for call in tried.calls if call.refused)
        if tried.slow is not None:
            slow.append(tried.slow)
            _, call, ms, text, grammar = tried.slow
            print(f"{tried.kind} {call} {ms} ms after {text!r}:\n{grammar[:_PRINTED]}\n", flush=True)
    summary = {**counts, "slow": len(slow), "most_ms": max((each.ms for each in slow), default=0)}
    print(json.dumps(summary))
    common.report(asked, {"machine": common.machine(), "found": [each._asdict() for each in slow], **summary})


if __name__ == "__main__":
    main()
