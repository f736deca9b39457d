"""Random grammars and schemas with a clock: which call of a matcher takes more than 50 ms of CPU time.

    python -m benchmarks.bounded [--data RANKS] [--seconds S] [--seed N] [--most-ms MS] [--json]

RANKS: a tiktoken rank file or the folder of a `transformers` tokenizer. Grammars in Lark and in GBNF, structural tags
and JSON schemas are drawn; each that compiles is followed by random tokens of its masks. Every `fill_mask`, `accept`,
`rollback`, `forced_tokens` and `shortest_completion` is timed (CPU time of this thread, without collections of
garbage); those above `--most-ms` are listed, with the grammar made smaller by leaving out lines, alternatives and
properties for as long as a call stays as slow, 15 s at most. A call that ends with a typed error in time is no finding.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.masks import load
from sluicegate.grammar import (
    GrammarError,
    LazyGrammar,
    LazyMatcher,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
)
from sluicegate.grammar.budget.clock import worked_s

_STEPS = 12
_SHRINKS = 40
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


class Slow(NamedTuple):
    """A call that took long. `text`: what was accepted before it."""

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


def schema(pick: random.Random, depth: int = 3) -> dict[str, Any]:
    """Draw a schema of the kinds that people write, and of some that they should not."""
    kind = pick.choice(("string", "integer", "number", "object", "array", "enum", "anyOf"))
    more: tuple[dict[str, Any], ...]
    if depth == 0 or kind == "string":
        more = tuple({"pattern": each} for each in ("^[a-z]+$", "^(a|b)*c{2,9}$", "[0-9]{3}", "^.{1,200}$"))
        more += tuple({"format": each} for each in ("date-time", "email", "uuid", "uri"))
        return {"type": "string", **pick.choice((*more, {}, {"maxLength": 40}))}
    if kind in ("integer", "number"):
        return {"type": kind, **pick.choice(({}, {"minimum": -3, "maximum": 10**9}, {"multipleOf": 7}))}
    if kind == "enum":
        return {"enum": [pick.choice(("a", "ab", "b c", 1, 12, None, "x" * 30)) for _ in range(pick.randint(1, 9))]}
    if kind == "anyOf":
        return {"anyOf": [schema(pick, depth - 1) for _ in range(pick.randint(1, 4))]}
    if kind == "array":
        more = ({}, {"minItems": 2, "maxItems": 9}, {"uniqueItems": True}, {"contains": schema(pick, 0)})
        return {"type": "array", "items": schema(pick, depth - 1), **pick.choice(more)}
    names = [pick.choice("abcdefgh") * pick.randint(1, 9) for _ in range(pick.choice((1, 3, 8, 40)))]
    found: dict[str, Any] = {"type": "object", "properties": {name: schema(pick, depth - 1) for name in names}}
    if pick.random() < 0.5:
        found["required"] = sorted(set(pick.choices(names, k=2)))
    if pick.random() < 0.3:
        found["patternProperties"] = {"^[a-c]": schema(pick, 0)}
    return found


def tags(pick: random.Random) -> dict[str, Any]:
    begins = [f"<{pick.choice(('f', 'call', 'fn='))}{n}>" for n in range(pick.randint(1, 5))]
    ends = [pick.choice(("</f>", "END", ".")) for _ in begins]
    structures = [
        {"begin": begin, "schema": schema(pick, 2), "end": end} for begin, end in zip(begins, ends, strict=True)
    ]
    return {"structures": structures, "triggers": [pick.choice(("<", begins[0][:2]))]}


def drawn(pick: random.Random) -> tuple[str, str]:
    """Return the kind of a grammar, and the grammar as a text."""
    kind = pick.choice(("lark", "lark", "gbnf", "gbnf", "schema", "tags"))
    if kind == "lark":
        return kind, lark(pick)
    if kind == "gbnf":
        return kind, gbnf(pick)
    return kind, json.dumps(schema(pick) if kind == "schema" else tags(pick))


COMPILERS: dict[str, Compile] = {
    "lark": compile_lark,
    "gbnf": compile_lark,
    "schema": lambda text, vocabulary: compile_json_schema(json.loads(text), vocabulary),
    "tags": lambda text, vocabulary: compile_structural_tags(json.loads(text), vocabulary),
}


# --- one grammar ------------------------------------------------------------------------------------------------------


class Clocked:
    """A matcher whose calls are timed."""

    def __init__(self, matcher: LazyMatcher, vocabulary: Vocabulary) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._row = np.zeros(vocabulary.row_words, np.int32)
        self.calls: list[tuple[str, float, str]] = []
        self.text = b""

    def _timed(self, name: str, act: Callable[..., Any], *arguments: Any) -> Any:
        began = worked_s()
        try:
            return act(*arguments)
        finally:
            self.calls.append((name, (worked_s() - began) * 1e3, self.text.decode(errors="replace")))

    def step(self, pick: random.Random) -> bool:
        """Ask for a mask and what else can be asked, and accept one of the tokens; False at the end."""
        self._timed("fill_mask", self._matcher.fill_mask, self._row)
        self._timed("forced_tokens", self._matcher.forced_tokens)
        if pick.random() < 0.3:
            self._timed("shortest_completion", self._matcher.shortest_completion)
        bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")
        offered = np.setdiff1d(np.flatnonzero(bits), self._vocabulary.eos_token_ids)
        if not len(offered):
            return False
        for again in range(2 if pick.random() < 0.2 else 1):
            if again:
                self._timed("rollback", self._matcher.rollback, 1)
            token = int(pick.choice(offered))
            self._timed("accept", self._matcher.accept, token)
        self.text += self._vocabulary.words[token]
        return True


def calls_of(kind: str, grammar: str, vocabulary: Vocabulary, seed: int) -> list[tuple[str, float, str]] | None:
    """Return each call with its milliseconds and the text before it; None for a grammar that does not compile."""
    try:
        compiled = COMPILERS[kind](grammar, vocabulary)
    except GrammarError:
        return None
    clocked = Clocked(compiled.matcher(), vocabulary)
    pick = random.Random(seed)
    try:
        for _ in range(_STEPS):
            if not clocked.step(pick):
                break
    except GrammarError:
        pass
    return clocked.calls


def slowest(kind: str, grammar: str, vocabulary: Vocabulary, seed: int) -> Slow | None:
    calls = calls_of(kind, grammar, vocabulary, seed)
    if not calls:
        return None
    name, ms, text = max(calls, key=lambda call: call[1])
    return Slow(kind, name, round(ms, 1), text[-80:], grammar)


def smaller(kind: str, grammar: str) -> Iterator[str]:
    """Yield the grammar with something left out."""
    if kind in ("schema", "tags"):
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


def shrunk(found: Slow, vocabulary: Vocabulary, seed: int, most_ms: float) -> Slow:
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


def search(vocabulary: Vocabulary, seed: int, seconds: float, most_ms: float) -> Iterator[tuple[Slow | None, int]]:
    """Yield for each grammar that compiled the slow call that was found, if one was, and how many calls were made."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seed += 1
        pick = random.Random(seed)
        kind, grammar = drawn(pick)
        calls = calls_of(kind, grammar, vocabulary, seed)
        if calls is None:
            continue
        found = None
        if max((ms for _, ms, _ in calls), default=0.0) > most_ms:
            again = slowest(kind, grammar, vocabulary, seed)  # a slow moment of the machine is no finding
            if again is not None and again.ms > most_ms:
                found = shrunk(again, vocabulary, seed, most_ms)
        yield found, len(calls)


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-ms", type=float, default=50)
    asked = parser.parse_args()
    vocabulary, _ = load(asked.data)
    vocabulary.warm()
    for kind, text in (("lark", 'start: "a"'), ("schema", "{}")):  # compiled loops are loaded before the clock runs
        calls_of(kind, text, vocabulary, 0)
    grammars = calls = 0
    slow: list[Slow] = []
    print(common.machine())
    for found, count in search(vocabulary, asked.seed, asked.seconds, asked.most_ms):
        grammars, calls = grammars + 1, calls + count
        if found is not None:
            slow.append(found)
            print(f"{found.kind} {found.call} {found.ms} ms after {found.text!r}:\n{found.grammar}\n", flush=True)
    summary = {"grammars": grammars, "calls": calls, "slow": len(slow), "most_ms": max((s.ms for s in slow), default=0)}
    print(json.dumps(summary))
    if asked.json:
        print(json.dumps({"machine": common.machine(), "slow": [each._asdict() for each in slow], **summary}))


if __name__ == "__main__":
    main()
