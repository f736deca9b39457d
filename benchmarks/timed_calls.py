"""Follow a grammar by random tokens, or those of a text, with a matcher whose calls are timed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.masks import Encode
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
from sluicegate.grammar.reading.reading import Reading

_SOME, _MARKS = 40, frozenset(b'{}[]":,<>\n')
"""Tokens of which the one with the most marks is accepted."""
_STEPS = (16, 16, 16, 48, 160)
_WALK_S = 2.0
"""CPU time after which a grammar is followed no further."""
_COMPILE_S = 5.5
_NAMED = re.compile(r" while it reads |more than \d+ readings|line \d+, column|/")
"""What an error says that names a rule or a place of a schema."""
_LONG_MS, _LONGEST_RULE = 20.0, 200
"""Calls from which on it is noted what was read, and characters of that."""


class Drawn(NamedTuple):
    """A grammar as a text. `lead`: a text of the real grammar that it was made of; "" where there is none."""

    kind: str
    grammar: str
    lead: str = ""


Compile = Callable[[str, Vocabulary], LazyGrammar]


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


class TimedCall(NamedTuple):
    """`text`: what was accepted before it; `refused`: it ended with an error, or, where a way to the end was asked,
    with none; `wrong`: how it ended as no call may; `rule`: what was read, of long calls."""

    name: str
    ms: float
    text: str
    refused: bool
    wrong: str = ""
    rule: str = ""


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
            text, rule = self.text.decode(errors="replace"), self._rule() if wrong or took_ms > _LONG_MS else ""
            self.calls.append(TimedCall(name, took_ms, text, refused, wrong, rule))
        return found

    def _rule(self) -> str:
        """Return the names of the rules, or the places of the schema, that are read."""
        readings: tuple[Reading, ...] = getattr(self._matcher, "_reading", tuple)()
        named = ", ".join(dict.fromkeys(name for each in readings if (name := each.label())))[:_LONGEST_RULE]
        return named or str(getattr(getattr(self._matcher, "_grammar", None), "subject", ""))

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
