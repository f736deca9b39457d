"""Phrase banks written for this project, and how their slots are filled.

A bank is a text file of sections; `{name}` in a phrase is filled from the section `name` of the same bank, or from the
keyword given. Nothing in the banks was copied from an evaluation set.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Bank:
    sections: dict[str, tuple[str, ...]]

    def draw(self, rng: random.Random, section: str, **given: str) -> str:
        """Draw a phrase of `section`, all slots filled. A slot that occurs twice in it is filled the same way."""
        return self.fill(rng, rng.choice(self.sections[section]), **given)

    def fill(self, rng: random.Random, phrase: str, **given: str) -> str:
        for name in dict.fromkeys(_SLOT.findall(phrase)):
            if name in given:
                phrase = phrase.replace(f"{{{name}}}", given[name])
            elif name in self.sections:
                phrase = phrase.replace(f"{{{name}}}", self.draw(rng, name, **given))
        return phrase


@cache
def bank(name: str) -> Bank:
    sections: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and " " not in line:
            current = sections.setdefault(line[1:-1], [])
        elif line and not (line.startswith("#") and not sections):
            current.append(line)
    return Bank({key: tuple(phrases) for key, phrases in sections.items()})


@cache
def languages() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return language -> letter -> phrases, from the banks of whole languages (`european.txt` explains the letters)."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in ("european", "asian", "southern"):
        for language, lines in bank(name).sections.items():
            pairs = [line.split("|", 1) for line in lines]
            found[language] = {letter: tuple(text for key, text in pairs if key == letter) for letter, _ in pairs}
    return found
