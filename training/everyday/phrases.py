"""A small language for phrases that can be put in many ways, and its compiler.

`{slot}` stands for a value, `{^slot}` for one with a capital, `{slot=value}` states a value without a word, `{*slot}`
may become a wrong value in a question. `{slot:words}` marks words of the text as the value, or as one more item where
the slot is a list, `{slot+maker}` says an item that is made up; `{slot.part:words}` marks a part of a row. `<rule>` is
one line of a rule, `(a|b)` one of several, `[a]` is left out half of the time, `\\n` is a line break, and a backslash
takes a sign's meaning away. `a~ ` becomes `a` or `an`, `^` makes the next letter a capital, `¤` a small one where a
small one follows it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_SPECIAL = "{<([|)]\\"
_ARTICLE = re.compile(r"\b([Aa])~ (?=\W?(\w\w?))")
_AN = re.compile(r"[aeioAEIO]|u[^ns]|U[^nS]|8|1[18]")
_NO_ON = re.compile(r"\b[Oo]n (?=today|tomorrow|tonight|next |this )")
_SMALL = re.compile(r"¤([A-Z])(?=[a-z])")
_CAPITAL = re.compile(r"\^(\w)")


class Teller(Protocol):
    """What a phrase needs to be told: chance, rules, and the values of slots."""

    rng: random.Random

    def rule(self, name: str) -> Phrase: ...

    def value(self, slot: str, capital: bool, wrong: bool) -> str: ...

    def state(self, slot: str, value: str) -> None: ...

    def span(self, slot: str, words: str, make: str) -> str: ...


class Phrase(Protocol):
    def tell(self, teller: Teller, out: list[str]) -> None:
        """Append the pieces of one wording to `out`."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str

    def tell(self, teller: Teller, out: list[str]) -> None:
        out.append(self.text)


@dataclass(frozen=True, slots=True)
class SlotValue:
    slot: str
    capital: bool = False
    wrong: bool = False

    def tell(self, teller: Teller, out: list[str]) -> None:
        out.append(teller.value(self.slot, self.capital, self.wrong))


@dataclass(frozen=True, slots=True)
class Statement:
    slot: str
    value: str

    def tell(self, teller: Teller, out: list[str]) -> None:
        teller.state(self.slot, self.value)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the text that is a value, or part of one: `words` as they stand, or what `make` draws."""

    slot: str
    words: str = ""
    make: str = ""

    def tell(self, teller: Teller, out: list[str]) -> None:
        out.append(teller.span(self.slot, self.words, self.make))


@dataclass(frozen=True, slots=True)
class RuleName:
    name: str

    def tell(self, teller: Teller, out: list[str]) -> None:
        teller.rule(self.name).tell(teller, out)


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Phrase, ...]

    def tell(self, teller: Teller, out: list[str]) -> None:
        for part in self.parts:
            part.tell(teller, out)


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Phrase, ...]

    def tell(self, teller: Teller, out: list[str]) -> None:
        self.options[int(teller.rng.random() * len(self.options))].tell(teller, out)


def told(phrase: Phrase, teller: Teller) -> str:
    """Return one wording of `phrase`, with articles and capitals in place."""
    out: list[str] = []
    phrase.tell(teller, out)
    text = "".join(out)
    if "~" in text:
        text = _ARTICLE.sub(lambda m: m[1] + ("n " if _AN.match(m[2]) else " "), text)
    if "¤" in text:
        text = _SMALL.sub(lambda m: m[1].lower(), text).replace("¤", "")
    text = _NO_ON.sub("", text).replace(".m..", ".m.")
    return _CAPITAL.sub(lambda m: m[1].upper(), text) if "^" in text else text


def compiled(source: str) -> Phrase:
    """Compile one line. Raises `ValueError` with the line where brackets do not match."""
    cursor = _Cursor(source)
    phrase = _alternatives(cursor)
    if cursor.at < len(source):
        raise ValueError(f"unexpected {source[cursor.at]!r} at {cursor.at} of {source!r}")
    return phrase


class _Cursor:
    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def until(self, closing: str) -> str:
        end = self.source.find(closing, self.at)
        if end < 0:
            raise ValueError(f"no {closing!r} after {self.at} of {self.source!r}")
        text, self.at = self.source[self.at : end], end + 1
        return text


def _alternatives(cursor: _Cursor) -> Phrase:
    options = [_sequence(cursor)]
    while cursor.peek() == "|":
        cursor.at += 1
        options.append(_sequence(cursor))
    return options[0] if len(options) == 1 else Choice(tuple(options))


def _sequence(cursor: _Cursor) -> Phrase:
    parts = list(_parts(cursor))
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _parts(cursor: _Cursor) -> Iterator[Phrase]:
    while (sign := cursor.peek()) and sign not in "|)]":
        if sign not in _SPECIAL:
            start = cursor.at
            while cursor.peek() and cursor.peek() not in _SPECIAL:
                cursor.at += 1
            yield Literal(cursor.source[start : cursor.at])
            continue
        cursor.at += 1
        if sign == "\\":
            escaped = cursor.peek()
            cursor.at += 1
            yield Literal("\n" if escaped == "n" else escaped)
        elif sign == "{":
            yield _slot(cursor.until("}"))
        elif sign == "<":
            yield RuleName(cursor.until(">"))
        else:
            inner = _alternatives(cursor)
            cursor.until(")" if sign == "(" else "]")
            yield inner if sign == "(" else Choice((inner, Literal("")))


_MARKED = re.compile(r"(\w+(?:\.\w+)?)([:+])(.+)")


def _slot(text: str) -> Phrase:
    if marked := _MARKED.fullmatch(text):
        return Span(marked[1], words=marked[3]) if marked[2] == ":" else Span(marked[1], make=marked[3])
    name, states, value = text.partition("=")
    if states:
        return Statement(name, value)
    return SlotValue(text.lstrip("^*"), "^" in text, "*" in text)
