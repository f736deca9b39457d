"""Search grammars and schemas for calls of a matcher that take more than 50 ms of CPU time.

    python -m benchmarks.bounded [--data RANKS] [--seconds S] [--limit N] [--only KINDS] [--seed N] [--most-ms MS]
        [--schemas FILE] [--grammars FOLDER] [--json]

RANKS: a tiktoken rank file or the folder of a `transformers` tokenizer. Grammars in Lark and in GBNF, structural tags
and JSON schemas (half of them with members in any order) are drawn, many of shapes that are known to be dear
(`benchmarks.random_grammars`, `benchmarks.random_schemas`), or made of real ones by changing parts
(`benchmarks.changed_grammars`): of the grammars of `benchmarks.grammar_samples`, of those in the files of FOLDER, and
of the schemas in FILE, lines of JSON with a `schema`, perhaps `tests` with `data`. Each that compiles is followed by
tokens of its masks, random ones or those of a text of the real grammar, up to 160; N grammars at most, until the
seconds are over. Every `fill_mask`, `accept`, `rollback`, `forced_tokens` and `shortest_completion` is timed (CPU time
of this thread, without collections of garbage). Listed are calls above `--most-ms`, three more times after compiling
anew, with the grammar made smaller by leaving out lines, alternatives and properties for as long as a call stays as
slow, 15 s at most; errors that end a call and name no rule; errors that are no `GrammarError`; and compiling that takes
longer than its limit. A call that ends with a typed error in time is no finding; how many did is counted.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks import changed_grammars, common, random_grammars, random_schemas
from benchmarks.grammar_samples import SAMPLES
from benchmarks.masks import Encode, load
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

_SOME, _MARKS = 40, frozenset(b'{}[]":,<>\n')
"""Tokens of which the one with the most marks is accepted."""
_SHRINKS = 40
_PRINTED = 2_000
_IN_JSON = ("schema", "any order", "tags")
_SHRINK_S = 15.0
"""CPU time for making one grammar smaller."""
_STEPS = (16, 16, 16, 48, 160)
_WALK_S = 2.0
"""CPU time after which a grammar is followed no further."""
_COMPILE_S = 5.5
_NAMED = re.compile(r" while it reads |more than \d+ readings|line \d+, column|/")
"""What an error says that names a rule or a place of a schema."""


_ALIKE = 30
"""Characters by which errors are told apart."""
_REAL = 0.5
"""Share of what is made of real grammars and schemas, where there are some."""


class Finding(NamedTuple):
    """A call that took too long, or ended as none may: `wrong` says how. `text`: the text accepted before it."""

    kind: str
    call: str
    ms: float
    text: str
    grammar: str
    wrong: str = ""


class Drawn(NamedTuple):
    """A grammar as a text. `lead`: a text of the real grammar that it was made of; "" where there is none."""

    kind: str
    grammar: str
    lead: str = ""


Compile = Callable[[str, Vocabulary], LazyGrammar]


# --- grammars ---------------------------------------------------------------------------------------------------------


class Sources:
    """What grammars are made of: `schemas`, real ones, each with texts, and `grammars` beside the samples."""

    def __init__(self, schemas: Sequence[tuple[Any, tuple[str, ...]]] = (), grammars: Sequence[str] = ()) -> None:
        known = {sample.grammar: sample.texts for sample in SAMPLES} | dict.fromkeys(grammars, ())
        self._rules = {
            kind: [(text, known[text]) for text in known if changed_grammars.is_gbnf(text) == (kind == "gbnf")]
            for kind in ("lark", "gbnf")
        }
        self._schemas = schemas
        self._tags = random_grammars.Tags(
            lambda pick: self._schema(pick)[0],
            lambda pick: self._text(pick, "lark")[0],
            lambda pick: self._text(pick, "gbnf")[0],
        )

    def drawn(self, pick: random.Random, kinds: tuple[str, ...]) -> Drawn:
        kind = pick.choice(kinds)
        if kind == "tags":
            return Drawn(kind, json.dumps(self._tags(pick)))
        if kind in self._rules:
            return Drawn(kind, *self._text(pick, kind))
        schema, lead = self._schema(pick)
        return Drawn(kind, json.dumps(schema), lead)

    def _schema(self, pick: random.Random) -> tuple[Any, str]:
        if not self._schemas or pick.random() > _REAL:
            return random_schemas.schema(pick), ""
        schema, texts = pick.choice(self._schemas)
        others = [pick.choice(self._schemas)[0] for _ in range(5)]
        return changed_grammars.schema(pick, schema, others), pick.choice(texts or ("",))

    def _text(self, pick: random.Random, kind: str) -> tuple[str, str]:
        if pick.random() > _REAL:
            return (random_grammars.gbnf if kind == "gbnf" else random_grammars.lark)(pick), ""
        text, texts = pick.choice(self._rules[kind])
        return changed_grammars.grammar(pick, text), pick.choice(texts or ("",))


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
    with none; `wrong`: how it ended as no call may."""

    name: str
    ms: float
    text: str
    refused: bool
    wrong: str = ""


class TimedMatcher:
    """Wraps a matcher and times its calls."""

    def __init__(self, matcher: LazyMatcher, vocabulary: Vocabulary, lead: list[int]) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._row = np.zeros(vocabulary.row_words, np.int32)
        self._lead = lead
        self._at = 0
        self.calls: list[TimedCall] = []
        self.text = b""

    def _timed(self, name: str, act: Callable[..., Any], *arguments: Any) -> Any:
        began, found, refused, wrong = worked_s(), None, True, ""
        try:
            found = act(*arguments)
            refused = name == "shortest_completion" and found is None
        except GrammarError as error:
            wrong = "" if _NAMED.search(str(error)) else f"names no rule: {error}"
            raise
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        finally:
            took_ms = (worked_s() - began) * 1e3
            self.calls.append(TimedCall(name, took_ms, self.text.decode(errors="replace"), refused, wrong))
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
        token = self._led(bits, pick)
        for again in range(2 if pick.random() < 0.2 else 1):
            if again:
                self._timed("rollback", self._matcher.rollback, 1)
            if again or token is None:
                token = self._drawn(offered, finish, pick)
            self._timed("accept", self._matcher.accept, token)
            if self.calls[-1].wrong:
                return False
        self.text += self._vocabulary.words[token or 0]
        return True

    def _led(self, bits: Any, pick: random.Random) -> int | None:
        """Return the next token of the text that leads, if it is offered; left aside now and then."""
        if self._at >= len(self._lead) or pick.random() < 0.04:
            return None
        token = self._lead[self._at]
        self._at += 1
        return token if bits[token] else None

    def _drawn(self, offered: Any, finish: Completion | None, pick: random.Random) -> int:
        """Draw a token: of all, of those of a few that change most where the text stands, or on the way to the end."""
        if finish is not None and finish.tokens and pick.random() < 0.5:
            return finish.tokens[0]
        if pick.random() < 0.5:
            some = pick.sample(offered.tolist(), min(len(offered), _SOME))
            marks = {token: sum(map(_MARKS.__contains__, self._vocabulary.words[token])) for token in some}
            return int(max(some, key=marks.__getitem__))
        return int(pick.choice(offered))


def calls_of(drawn: Drawn, vocabulary: Vocabulary, encode: Encode, seed: int) -> list[TimedCall] | None:
    """Return the calls in their order; None for a grammar that does not compile, in time."""
    began, wrong = worked_s(), ""
    try:
        compiled = COMPILERS[drawn.kind](drawn.grammar, vocabulary)
    except GrammarError:
        compiled = None
    except Exception as error:
        compiled, wrong = None, f"{type(error).__name__}: {error}"
    took_s = worked_s() - began
    if took_s > _COMPILE_S:
        wrong = f"takes {took_s:.1f} s"
    if compiled is None or wrong:
        return [TimedCall("compile", 0.0, "", compiled is None, wrong)] if wrong else None
    clocked = TimedMatcher(compiled.matcher(), vocabulary, encode(drawn.lead))
    pick = random.Random(seed)
    began = worked_s()
    try:
        for _ in range(pick.choice(_STEPS)):
            if not clocked.step(pick) or worked_s() - began > _WALK_S:
                break
    except GrammarError:
        pass
    return clocked.calls


def confirmed(drawn: Drawn, vocabulary: Vocabulary, encode: Encode, seed: int, times: int = 3) -> Finding | None:
    """Return the least of what `worst` finds, each time with all compiled anew: beside other programs the clock of a
    thread runs at twice its pace now and then."""
    found = [worst(drawn, vocabulary, encode, seed) for _ in range(times)]
    return min((each for each in found if each is not None), key=lambda each: each.ms, default=None)


def worst(drawn: Drawn, vocabulary: Vocabulary, encode: Encode, seed: int) -> Finding | None:
    """Return the call that ended as none may, or the slowest one."""
    calls = calls_of(drawn, vocabulary, encode, seed)
    if not calls:
        return None
    call = max(calls, key=lambda call: (bool(call.wrong), call.ms))
    return Finding(drawn.kind, call.name, round(call.ms, 1), call.text[-80:], drawn.grammar, call.wrong)


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


def shrunk(found: Finding, lead: str, vocabulary: Vocabulary, encode: Encode, seed: int, most_ms: float) -> Finding:
    until = worked_s() + _SHRINK_S
    for _ in range(_SHRINKS):
        for candidate in smaller(found.kind, found.grammar):
            if worked_s() > until:
                return found
            less = confirmed(Drawn(found.kind, candidate, lead), vocabulary, encode, seed, 2)
            if less is not None and less.wrong[:_ALIKE] == found.wrong[:_ALIKE] and (less.wrong or less.ms > most_ms):
                found = less
                break
        else:
            break
    return found


# --- all --------------------------------------------------------------------------------------------------------------


class TriedGrammar(NamedTuple):
    """A grammar that compiled, or failed as none may."""

    kind: str
    calls: list[TimedCall]
    finding: Finding | None


def search(
    sources: Sources,
    vocabulary: Vocabulary,
    encode: Encode,
    kinds: tuple[str, ...],
    seed: int,
    seconds: float,
    most_ms: float,
) -> Iterator[TriedGrammar]:
    """Try grammars until the time is over; a million of them share a seed."""
    until = time.monotonic() + seconds
    for at in range(seed * 1_000_000, (seed + 1) * 1_000_000):
        if time.monotonic() > until:
            return
        drawn = sources.drawn(random.Random(at), kinds)
        calls = calls_of(drawn, vocabulary, encode, at)
        if calls is None:
            continue
        found = None
        if any(call.wrong or call.ms > most_ms for call in calls):
            again = confirmed(drawn, vocabulary, encode, at)
            if again is not None and (again.wrong or again.ms > most_ms):
                found = shrunk(again, drawn.lead, vocabulary, encode, at, most_ms)
        yield TriedGrammar(drawn.kind, calls, found)


def real_schemas(path: Path | None) -> list[tuple[Any, tuple[str, ...]]]:
    """Return the schemas of lines of JSON, each with its valid instances as texts."""
    if path is None:
        return []
    return [
        (line["schema"], tuple(json.dumps(test["data"]) for test in line.get("tests", ()) if test.get("valid")))
        for line in common.records(path, fields=("schema",))
    ]


def real_grammars(folder: Path | None) -> list[str]:
    return [] if folder is None else [path.read_text("utf-8") for path in sorted(folder.iterdir()) if path.is_file()]


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "grammars, within the seconds")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", choices=list(KINDS), default="all", help="kinds of grammars")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-ms", type=float, default=50)
    parser.add_argument("--schemas", type=Path, help="real schemas to change, as lines of JSON")
    parser.add_argument("--grammars", type=Path, help="a folder with real grammars to change")
    asked = parser.parse_args()
    vocabulary, encode = load(asked.data)
    vocabulary.warm()
    sources = Sources(real_schemas(asked.schemas), real_grammars(asked.grammars))
    for kind, text in (("lark", 'start: "a"'), ("schema", "{}")):  # compiled loops are loaded before the clock runs
        calls_of(Drawn(kind, text), vocabulary, encode, 0)
    print(common.machine())
    counts: Counter[str] = Counter()
    found: list[Finding] = []
    tries = search(sources, vocabulary, encode, KINDS[asked.only], asked.seed, asked.seconds, asked.most_ms)
    for tried in islice(tries, asked.limit or None):
        counts["grammars"] += 1
        counts[f"grammars {tried.kind}"] += 1
        counts["calls"] += len(tried.calls)
        counts.update(f"refused {call.name}" for call in tried.calls if call.refused)
        if tried.finding is not None:
            found.append(tried.finding)
            _, call, ms, text, grammar, wrong = tried.finding
            print(f"{tried.kind} {call} {wrong or f'{ms} ms'} after {text!r}:\n{grammar[:_PRINTED]}\n", flush=True)
    summary = {**counts, "found": len(found), "most_ms": max((each.ms for each in found), default=0)}
    print(json.dumps(summary))
    common.report(asked, {"machine": common.machine(), "findings": [each._asdict() for each in found], **summary})


if __name__ == "__main__":
    main()
