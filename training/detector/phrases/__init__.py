"""Phrase banks written for this project, and how their slots are filled.

A bank is a text file of sections; `{name}` in a phrase is filled from the section `name` of the same bank, or from the
keyword given. Nothing in the banks was copied from an evaluation set.

Within `wider()`, a bank holds the phrases of its namesake in `wider/` too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SLOT = re.compile(r"\{(\w+)\}")
_FOLDER = Path(__file__).parent
_wide = ContextVar("_wide", default=False)


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


@contextmanager
def wider() -> Iterator[None]:
    """Let every bank hold its wider phrases too."""
    token = _wide.set(True)
    try:
        yield
    finally:
        _wide.reset(token)


def bank(name: str) -> Bank:
    return _bank(name, _wide.get())


def sections(name: str) -> dict[str, tuple[str, ...]]:
    """Return the sections of one file as they stand, slots unfilled."""
    return _sections([_FOLDER / f"{name}.txt"])


@cache
def _bank(name: str, wide: bool) -> Bank:
    return Bank(_sections([_FOLDER / f"{name}.txt", *([_FOLDER / "wider" / f"{name}.txt"] if wide else [])]))


def _sections(files: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in (line for file in files if file.exists() for line in _lines(file)):
        if line.startswith("[") and line.endswith("]") and " " not in line:
            current = found.setdefault(line[1:-1], [])
        else:
            current.append(line)
    return {key: tuple(phrases) for key, phrases in found.items()}


def _lines(file: Path) -> Iterator[str]:
    """Yield those that are neither empty nor a remark before the first section."""
    begun = False
    for line in file.read_text("utf-8").splitlines():
        begun = begun or (line.startswith("[") and line.endswith("]") and " " not in line)
        if line and (begun or not line.startswith("#")):
            yield line


def languages() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return language -> letter -> phrases, from the banks of whole languages (`european.txt` explains the letters)."""
    return _languages(_wide.get())


@cache
def _languages(wide: bool) -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in ("european", "asian", "southern"):
        for language, lines in _bank(name, wide).sections.items():
            pairs = [line.split("|", 1) for line in lines]
            found[language] = {letter: tuple(text for key, text in pairs if key == letter) for letter, _ in pairs}
    return found
