"""Makers of names and words. Which pool they draw from decides what an evaluation may claim."""

from __future__ import annotations

import random
import unicodedata
from typing import Literal

from training.tables import heldout_words, words

Pool = Literal["train", "made", "heldout"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Names:
    """Draws names for one document. `train`: made up and listed; `made`: made up; `heldout`: evaluation lists."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self.rng = rng
        self.pool = pool

    def _listed(self) -> bool:
        return self.pool == "train" and self.rng.random() < 0.6

    def stem(self, low: int = 1, high: int = 3) -> str:
        """Make up a lower-case word: syllables, or (one in seven) plain random letters."""
        rng = self.rng
        if rng.random() < 0.15:
            return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(low * 2 + 1, high * 3)))
        parts = []
        for _ in range(min(rng.randint(low, high), rng.randint(low, high))):  # short ones more often
            coda = rng.choice(words("codas")) if rng.random() < 0.35 else ""
            parts.append(
                (rng.choice(words("onsets")) if rng.random() < 0.9 else "") + rng.choice(words("vowels")) + coda
            )
        return "".join(parts)

    def _made(self, ends: list[str], low: int = 1, high: int = 3) -> str:
        return (self.stem(low, high) + (self.rng.choice(ends) if self.rng.random() < 0.5 else "")).capitalize()

    def first(self) -> str:
        if self.pool == "heldout":
            return self.rng.choice(heldout_words("first"))
        name = self.rng.choice(words("first")) if self._listed() else self._made(words("first_ends"))
        return f"{name}-{self._made(words('first_ends'), 1, 2)}" if self.rng.random() < 0.04 else name

    def last(self) -> str:
        rng = self.rng
        if self.pool == "heldout":
            return rng.choice(heldout_words("last"))
        name = rng.choice(words("last")) if self._listed() else self._made(words("last_ends"))
        roll = rng.random()
        if roll < 0.05:
            return f"{name}-{self._made(words('last_ends'), 1, 2)}"
        if roll < 0.08:
            return rng.choice(["O'", "Mc", "Mac", "D'", "de ", "van ", "von ", "da ", "van der ", "Le "]) + name
        return name

    def person(self) -> str:
        rng, roll = self.rng, self.rng.random()
        first, last = self.first(), self.last()
        if roll < 0.76:
            return f"{first} {last}"
        if roll < 0.84:
            return f"{first} {rng.choice(_LETTERS).upper()}. {last}"
        if roll < 0.89:
            return f"{first[0]}. {last}"
        if roll < 0.93:
            return f"{first} {last}".upper()
        return f"{first} {self.first()} {last}"

    def company(self) -> str:
        rng, roll = self.rng, self.rng.random()
        if self.pool == "heldout" and roll < 0.6:
            return rng.choice(heldout_words("company"))
        tail = rng.choice(words("company_tail"))
        if roll < 0.25:
            return f"{self.last()} & {self.last()}"
        if roll < 0.5:
            return f"{self.last()} {tail}"
        if roll < 0.62 and self.pool == "train":
            return f"{self.plain(1, 2).title()} {tail}"
        if roll < 0.85:
            return f"{self._made(['ex', 'ia', 'on', 'is', 'ix', 'ora', 'tec'])} {tail}"
        return f"{self._made(['o', 'a'])} {self._made(['works', 'soft', 'line'])} {tail}"

    def city(self) -> str:
        if self.pool == "heldout":
            return self.rng.choice(heldout_words("city"))
        if self._listed():
            return self.rng.choice(words("city"))
        name = self._made(words("city_ends"))
        return (
            f"{self.rng.choice(['Bad', 'New', 'San', 'Port', 'St.', 'Upper', 'Lake'])} {name}"
            if self.rng.random() < 0.15
            else name
        )

    def country(self) -> str:
        if self.pool == "heldout":
            return self.rng.choice(heldout_words("country"))
        return self.rng.choice(words("country")) if self._listed() else self._made(["ia", "land", "stan"])

    def product(self) -> str:
        rng, roll = self.rng, self.rng.random()
        if self.pool == "heldout" and roll < 0.75:
            return rng.choice(heldout_words("product"))
        if roll < 0.45 and self.pool != "made":
            name = f"{rng.choice(words('product_adjective'))} {rng.choice(words('product_noun'))}"
            return name.capitalize() if rng.random() < 0.5 else name
        if roll < 0.6:
            return self.plain(2, 3) if self._listed() else f"{self.stem()} {rng.choice(words('product_noun'))}"
        if roll < 0.75:
            return f"{self.stem()} {self.stem()}"
        return f"{self._made(['o', 'ix', 'a'])} {rng.choice(_LETTERS).upper()}{rng.randint(2, 990)}"

    def job(self) -> str:
        if self.pool == "heldout":
            return self.rng.choice(heldout_words("job"))
        if self._listed():
            return self.rng.choice(words("job"))
        return f"{self.plain(1, 2) if self._listed() else self.stem()} {self.rng.choice(words('job'))}"

    def skill(self) -> str:
        if self.pool == "heldout":
            return self.rng.choice(heldout_words("skill"))
        if self._listed():
            return self.plain(1, 3) if self.rng.random() < 0.4 else self.rng.choice(words("skill"))
        return self.word()

    def word(self) -> str:
        word = self.stem(1, 3)
        return word.capitalize() if self.rng.random() < 0.3 else word

    def plain(self, low: int, high: int) -> str:
        """Draw a phrase of ordinary words that need not make sense."""
        return " ".join(self.rng.choice(words("common")) for _ in range(self.rng.randint(low, high)))

    def phrase(self, low: int, high: int) -> str:
        if self._listed():
            return self.plain(low, high)
        return " ".join(self.word() for _ in range(self.rng.randint(low, high)))

    def subject(self) -> str:
        rng = self.rng
        if self.pool == "heldout":
            return rng.choice(heldout_words("subject"))
        if rng.random() < 0.6:
            noun = rng.choice(words("noun")) if rng.random() < 0.7 else f"{self.stem()} {rng.choice(words('noun'))}"
            return f"{noun} {rng.choice(words('trouble'))}"
        return self.plain(3, 6) if self._listed() else f"{self.phrase(1, 3)} {rng.choice(words('trouble'))}"

    def topic(self) -> str:
        rng = self.rng
        if self.pool == "heldout":
            return rng.choice(heldout_words("topic"))
        if self.pool == "train" and rng.random() < 0.25:
            return self.plain(2, 4)
        topic = (
            rng.choice(words("topic")) if rng.random() < 0.5 else f"{self.phrase(1, 2)} {rng.choice(words('topic'))}"
        )
        return topic.title() if rng.random() < 0.3 else topic

    def street(self) -> str:
        rng = self.rng
        if rng.random() < 0.35:
            return f"{self.last()}{rng.choice(['straße', 'strasse', 'gasse', 'weg', 'laan'])} {rng.randint(1, 240)}"
        return f"{rng.randint(1, 999)} {self.last()} {rng.choice(words('street_tail'))}"

    def email(self) -> str:
        rng = self.rng
        local = rng.choice(["{f}.{l}", "{f}", "{i}.{l}", "{l}", "{f}_{l}", "{f}{n}", "info", "{i}{l}"]).format(
            f=ascii_lower(self.first()), l=ascii_lower(self.last()), i=rng.choice(_LETTERS), n=rng.randint(1, 99)
        )
        host = ascii_lower(self.last() if self.pool == "heldout" else self.stem())
        return f"{local}@{host}.{rng.choice(['com', 'org', 'net', 'example', 'de', 'co.uk', 'io', 'eu'])}"

    def drug(self) -> str:
        return self._made(words("drug_tail"), 2, 3)


def ascii_lower(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.lower().replace("ł", "l").replace("ø", "o").replace("ı", "i"))
    return "".join(c for c in plain if c.isascii() and (c.isalnum() or c == "-")).strip("-") or "x"
