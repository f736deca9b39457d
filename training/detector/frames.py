"""Long texts that give a model a part to play, of our own: attacks, and harmless texts in the same forms.

Both are drawn from `phrases/frames.txt`, from sections that are built alike, so that what tells them apart is not the
form (a role, a story, a console, two answers, points to lose) but what the part is for.
"""

from __future__ import annotations

import random
import re

from training.detector.lines import choose
from training.detector.phrases import sections

_NAME = re.compile(r"\{name\}")
_FREE = ("free_persona", "free_story", "free_machine", "free_study")
_HARMLESS = ("persona", "story", "machine", "study")
_OFTEN = (5, 3, 2, 2)


def attack(rng: random.Random) -> str:
    """Compose a role in which rules do not hold, at length."""
    bound = rng.choices(("never", "shared", "stakes"), (6, 4, 1), k=rng.randint(2, 9))
    return _composed(rng, _FREE, ["never", *bound], "forbidden")


def harmless(rng: random.Random) -> str:
    """Compose a role in the same forms, for nothing that anybody forbids."""
    bound = rng.choices(("manner", "shared", "points"), (6, 4, 1), k=rng.randint(1, 9))
    return _composed(rng, _HARMLESS, bound, "wish")


def _composed(rng: random.Random, openings: tuple[str, ...], bound: list[str], last: str) -> str:
    """Put one or two openings before sentences of the sections `bound`, each once, and at times a last one after."""
    name = rng.choice(sections("frames")["name"])
    kinds = rng.choices(openings, _OFTEN, k=rng.choice((1, 1, 1, 2)))
    drawn = dict.fromkeys(rng.choice(sections("frames")[kind]) for kind in [*kinds, *bound])
    parts = [*drawn, *([rng.choice(sections("frames")[last])] if rng.random() < 0.7 else [])]
    return rng.choice((" ", " ", "\n", "\n\n")).join(choose(rng, _NAME.sub(name, part)) for part in parts)
