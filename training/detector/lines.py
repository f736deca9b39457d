"""Whole texts written for this project, harmless and attacks: what the phrase banks' forms do not reach.

A phrase bank composes a text of parts, so its texts share their frame. Here each line is a text of its own with a few
choices in it (`{one|other}`) and new lines (`\\n`), for head `injection` alone.
"""

from __future__ import annotations

import random
import re

from training.detector.phrases import sections

_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")


def drawn(name: str, each: int, seed: int) -> list[tuple[str, str]]:
    """Return (section, text) of the file `name`, at most `each` distinct texts of a line; the same for one `seed`."""
    rng = random.Random(seed)
    found: dict[str, str] = {}
    for section, lines in sections(f"lines/{name}").items():
        for line in lines:
            found.update(dict.fromkeys((choose(rng, line) for _ in range(each)), section))
    return [(section, text) for text, section in found.items()]


def choose(rng: random.Random, line: str) -> str:
    """Return `line` with one of every choice, and a new line where it holds `\\n`."""
    chosen = _CHOICE.sub(lambda choice: rng.choice(choice[1].split("|")), line)
    return chosen.replace("\\n", "\n").strip()
