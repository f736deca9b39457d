"""Harmless text in many languages: the translated messages of free software, read from its compiled catalogues.

Without it a detector learns that whatever is not English is an attack, since the attack sets are translated and the
harmless ones are not. Django (BSD-3-Clause) and Sphinx (BSD-2-Clause) were used; `pip install --no-deps --target
FOLDER django sphinx` fetches them. Only files below a `locale` folder are read.
"""

from __future__ import annotations

import gettext
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

LANGUAGES = frozenset(
    re.findall(r"\w+", "ar bn cs de es fi fil fr hi id it ja ko nl pl pt pt_BR ru sv th tl tr uk vi zh_Hans zh_CN")
)
_SHORTEST = 18
_LONGEST = 400
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
