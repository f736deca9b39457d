"""Tokens that a grammar names: `<|python_tag|>`, `<think>`, `<[128010]>`, `<[128000-128100,128200]>`.

A special token stands for itself; one that has a text, for its text, however that is spelled; one that ends texts, for
the end. Not covered: ranges of all tokens (`<[*]>`, `<[^5]>`), which would count tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sluicegate.grammar.automata import ByteDfa, CharDfa, utf8
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import WorkMeter
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.rules import Production, Symbol
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, UnsupportedGrammar

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MOST = 5_000
"""Tokens of one range."""
_NAMES = 8
"""Names that an error lists."""


class TokenTerminals:
    """The lexemes of the tokens that one grammar names. `vocabulary` None: the grammar is a part of another one, where
    tokens have no place.

    `special`: whether a special token is among them, which only `Vocabulary.marked` spells.
    """

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self.special = False
        self.ends: list[str] = []
        """Where tokens that end a text are named, and how."""

    def lexeme(self, written: str) -> DfaLexeme | None:
        """Return the lexeme of `<...>`; None for tokens that end a text. Raises a `GrammarError` without a place."""
        words = self._words(written)
        if not words:
            return None
        return DfaLexeme(_any_of(sorted(words)), general=True)

    def text_without(self, written: str) -> DfaLexeme:
        """Return the lexeme of texts that are not empty and do not hold `<...>`, as llama.cpp writes `!<...>+`."""
        texts = CharDfa.any_string().difference(CharDfa.from_literal(""))
        for word in self._words(written):
            text = word.decode("utf-8", "ignore")
            if text and text.encode() == word:
                anything = CharDfa.any_string()
                texts = texts.difference(anything.concat(CharDfa.from_literal(text)).concat(anything))
        return DfaLexeme(utf8(texts), general=True)

    def _words(self, written: str) -> set[bytes]:
        vocabulary = self._vocabulary
        if vocabulary is None:
            raise UnsupportedGrammar("tokens by name or number have no place here; write the text that they stand for")
        tokens = self._numbers(written[2:-2], vocabulary) if written.startswith("<[") else [self._named(written)]
        found: set[bytes] = set()
        for token in tokens:
            if token in vocabulary.eos_token_ids:
                continue
            word = vocabulary.words[token]
            self.special |= not word
            found.add(word or vocabulary.marked.words[token])
        return found

    def _named(self, written: str) -> int:
        vocabulary = self._vocabulary
        assert vocabulary is not None
        token = vocabulary.special.get(written, vocabulary.special.get(written[1:-1]))
        if token is None:
            token = vocabulary.spelling(written.encode())
        if token is None:
            known = sorted(vocabulary.special)[:_NAMES]
            names = f"; it has {', '.join(known)}" if known else ""
            raise InvalidGrammar(
                f"the model has no token {written}{names}. Write a text in quotes, or a token's number: <[5]>"
            )
        return token

    def _numbers(self, body: str, vocabulary: Vocabulary) -> list[int]:
        if body.startswith(("^", "*")):
            raise UnsupportedGrammar(
                "<[*]> and <[^...]> count tokens, of any text, and masks count characters: write an expression such as "
                "/(?s:.+)/ for text, and the special tokens by number"
            )
        found: dict[int, None] = {}
        for part in body.split(","):
            bounds = _RANGE.fullmatch(part)
            if bounds is None:
                raise InvalidGrammar(f"tokens are written <[5]>, <[5-9]> or <[5,7-9]>, not <[{body}]>")
            low = int(bounds[1][:9])
            high = low if bounds[2] is None else int(bounds[2][:9])
            if high < low:
                raise InvalidGrammar(f"the range {part} runs backwards")
            if high >= len(vocabulary.words):
                raise InvalidGrammar(f"the model has no token {high}; the last one is {len(vocabulary.words) - 1}")
            if high - low >= _MOST:
                raise GrammarLimit(f"the range {part} has more than {_MOST} tokens")
            found.update(dict.fromkeys(range(low, high + 1)))
        return list(found)


def _any_of(words: Sequence[bytes]) -> ByteDfa:
    """Return the automaton of `words`."""
    rows: list[dict[int, int]] = [{}]
    accepting = [False]
    for word in words:
        state = 0
        for byte in word:
            after = rows[state].setdefault(byte, len(rows))
            if after == len(rows):
                rows.append({})
                accepting.append(False)
            state = after
        accepting[state] = True
    every = list(range(256))
    return ByteDfa.of_table(minimal(Table(every, every, rows, accepting), WorkMeter()))


def without_ends(rules: Iterable[Production], known: set[str], named: Sequence[str]) -> list[Production]:
    """Leave out the terminals that are not `known`: tokens that end a text, `named` so. Raises `UnsupportedGrammar`
    where something could follow one."""
    rules = list(rules)
    last: set[Symbol] = {symbol for rule in rules for symbol in rule.expansion if symbol[0] and symbol[1] not in known}
    pending = set(last)
    while pending:
        for rule in rules:
            if any(symbol in pending for symbol in rule.expansion[:-1]):
                raise UnsupportedGrammar(
                    f"{' and '.join(named[:_NAMES])} ends a text, but something may stand behind it; name it at the "
                    "very end, or leave it out"
                )
        more = {(False, rule.origin) for rule in rules if rule.expansion and rule.expansion[-1] in pending}
        pending = more - last
        last |= more
    ends = {symbol for symbol in last if symbol[0]}
    return [Production(rule.origin, tuple(s for s in rule.expansion if s not in ends)) for rule in rules]
