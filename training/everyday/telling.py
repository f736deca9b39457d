"""Tells a frame: one wording of one of its texts, with the values that stand in it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from training.everyday import makers
from training.everyday.book import Book, Family, Frame, Passage, Slot, book
from training.everyday.makers import Row
from training.everyday.phrases import Phrase, told
from training.everyday.spans import array, common_parts, written
from training.names import Names
from training.values import Kind, Value, quoted, string

_CURRENCIES = ("USD", "EUR", "GBP", "USD", "EUR", "CHF", "SEK", "PLN", "CAD")
_AMOUNTS = ("amount", "money")


@dataclass(frozen=True, slots=True)
class Told:
    """A text, and per slot that it answers the value; in the order in which the text has them."""

    frame: Frame
    text: str
    values: dict[str, Value]
    rows: dict[str, list[Row]]
    currency: str | None
    passage: Passage | None = None


def tell(rng: random.Random, family: Family, frame: Frame) -> Told:
    telling = Telling(rng, family, frame)
    while True:
        phrase = rng.choice(frame.texts)
        text = told(phrase, telling).strip()
        if _no_value_twice(telling.values):
            passage = frame.passages.get(phrase) if frame.passages else None
            return Told(frame, text, telling.values, telling.full_rows(), telling.currency_used(), passage)
        telling = Telling(rng, family, frame)


def _no_value_twice(values: dict[str, Value]) -> bool:
    """Return whether all strings differ: two people of one name in one text would make half of the questions
    ambiguous."""
    texts = [value.text for value in values.values() if value.kind == "string"]
    return len(texts) == len(set(texts))


class Telling:
    """The state of one text: values drawn so far. Implements `phrases.Teller`."""

    def __init__(self, rng: random.Random, family: Family, frame: Frame) -> None:
        self.rng, self.family, self.frame = rng, family, frame
        self.book: Book = book(family)
        self.names = Names(rng, family)
        self.values: dict[str, Value] = {}
        self.rows: dict[str, list[Row]] = {}
        self.items: dict[str, list[str]] = {}
        self.currency = rng.choice(_CURRENCIES)

    def rule(self, name: str) -> Phrase:
        return self.book.rules[name]

    def value(self, slot: str, capital: bool, wrong: bool) -> str:
        if slot not in self.values:
            value, rows = self._made(self.frame.slots[slot])
            self.values[slot] = _capital(value) if capital else value
            if rows:
                self.rows[slot] = rows
        return self.values[slot].text

    def state(self, slot: str, value: str) -> None:
        kind: Kind = "boolean" if value in ("true", "false") else "integer" if value.isdigit() else "enum"
        self.values[slot] = Value(kind, value, value)

    def span(self, slot: str, words: str, make: str) -> str:
        """Say a stretch of the text that is a value, an item of a list or a part of a row; return its words."""
        name, _, part = slot.partition(".")
        declared = self.frame.slots[name]
        if part:
            return self._row_part(name, part, self.book.frames[declared.make[1]].slots[part], words, make)
        if declared.make[0] != "list":
            self.values[name] = written(declared.make[0], words) if words else self._drawn(make)
            return self.values[name].text
        items = self.items.setdefault(name, [])
        items.append(words or self._unlike(make, items))
        self.values[name] = array(items)
        return items[-1]

    def _row_part(self, name: str, part: str, slot: Slot, words: str, make: str) -> str:
        """Say a part of the last row, or of a new one where the last has this part."""
        rows = self.rows.setdefault(name, [])
        if not rows or part in rows[-1]:
            rows.append({})
        rows[-1][part] = written(slot.make[0], words) if words else self._drawn(make)
        self.values[name] = Value("objects", "", "")
        return rows[-1][part].text

    def full_rows(self) -> dict[str, list[Row]]:
        """Return the rows of every slot; those told part by part with the parts that all of them have."""
        made = {name: self.frame.slots[name].make for name in self.rows}
        told_apart = {name for name, make in made.items() if make[0] == "parts"}
        whole = {name: common_parts(self.rows[name], self.book.frames[made[name][1]].slots) for name in told_apart}
        return {**self.rows, **whole}

    def _drawn(self, make: str) -> Value:
        if make.startswith("@"):
            return string(self._item(make))
        return makers.made(make.split("/"), self.names, self.rng, self.currency)

    def _unlike(self, make: str, items: list[str]) -> str:
        """Draw an item that is none of `items`. Raises `ValueError` where none turns up in 20 draws."""
        for _ in range(20):
            item = self._item(make)
            if item not in items:
                return item
        raise ValueError(f"{make!r} of frame {self.frame.name!r} has too few values for a list")

    def other(self, slot: str) -> str:
        """Draw another value than the text has for `slot`. Raises `ValueError` where none turns up in 20 draws."""
        for _ in range(20):
            text = self._made(self.frame.slots[slot])[0].text
            if text.lower() not in self.values[slot].text.lower():
                return text
        raise ValueError(f"slot {slot!r} of frame {self.frame.name!r} has too few values to change one")

    def currency_used(self) -> str | None:
        has = any(slot in self.values and self.frame.slots[slot].make[0] in _AMOUNTS for slot in self.frame.slots)
        return self.currency if has else None

    def _made(self, slot: Slot) -> tuple[Value, list[Row]]:
        kind, *args = slot.make
        if kind == "words":
            text = told(self.book.rules[args[0]], self)
            return Value("string", text, quoted(text)), []
        if kind == "list":
            many = self.rng.randint(int(args[1]), int(args[2]))
            return makers.listed([self._item(args[0]) for _ in range(many)], self.rng), []
        if kind == "rows":
            return self._rows(args)
        return makers.made(slot.make, self.names, self.rng, self.currency), []

    def _item(self, make: str) -> str:
        if make.startswith("@"):
            return told(self.book.rules[make[1:]], self)
        return makers.made(tuple(make.split("/")), self.names, self.rng, self.currency).text

    def _rows(self, args: list[str]) -> tuple[Value, list[Row]]:
        """Tell several of a small frame, all in one wording; a row holds what every one of them has."""
        frame, many = self.book.frames[args[0]], self.rng.randint(int(args[1]), int(args[2]))
        wording = self.rng.choice(frame.texts)
        rows: list[Row] = []
        texts: list[str] = []
        for _ in range(many):
            telling = Telling(self.rng, self.family, frame)
            telling.currency = self.currency
            text = told(wording, telling)
            if not any(_alike(row, telling.values) for row in rows):
                texts.append(text)
                rows.append(telling.values)
        shared = [name for name in rows[0] if all(name in row for row in rows)]
        joined = makers.joined(texts, self.rng) if len(args) < 4 else args[3].replace("\\n", "\n").join(texts)
        made = [{name: row[name] for name in shared} for row in rows]
        return Value("objects", joined, ""), made


def _alike(row: Row, other: Row) -> bool:
    """Return whether both rows have the same first string: nobody lists one thing twice."""
    texts = [next((v.text for v in one.values() if v.kind == "string"), "") for one in (row, other)]
    return texts[0] == texts[1]


def _capital(value: Value) -> Value:
    if value.kind != "string":
        return value
    text = value.text[:1].upper() + value.text[1:]
    return Value(value.kind, text, quoted(text), format=value.format)
