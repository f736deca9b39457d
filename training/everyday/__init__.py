"""Short everyday requests: a sentence or two, and what people ask about them. The door is `sample`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from training.documents import Document
from training.everyday.asking import Focus, asked
from training.everyday.book import Family, Frame, book
from training.everyday.forms import messages_of
from training.everyday.telling import tell
from training.examples import Example

__all__ = ["Family", "Focus", "sample"]
_RARER = 0.3  # passages, of which nearly all is asked by yes or no, where fields may be asked as well


def sample(
    rng: random.Random, family: Family = "train", questions: int = 3, frame: str | None = None, focus: Focus = "any"
) -> Example:
    """Compose one short request with several questions about it; `frame` asks for one kind of text, `focus` for one
    that has a label, or that a question of yes or no is about, and for nothing else about it."""
    if frame:
        chosen = book(family).frames[frame]
    else:
        frames, weights = _drawn_from(family, focus)
        chosen = rng.choices(frames, cum_weights=weights)[0]
    about = tell(rng, family, chosen)
    what = asked(rng, family, about, questions, focus)
    messages = messages_of(about.text, what.ask, rng, family)
    return Example(messages, Document(about.text, (), (), about.currency or ""), what.questions)


@cache
def _drawn_from(family: Family, focus: Focus) -> tuple[Sequence[Frame], Sequence[float]]:
    """Return the frames that fit, and their weights summed up from the first."""
    frames = [one for one in book(family).top_frames() if _fits(one, focus)]
    rarer = _RARER if focus == "any" else 1.0
    return frames, list(accumulate(one.weight * (rarer if one.passages else 1.0) for one in frames))


def _fits(frame: Frame, focus: Focus) -> bool:
    if focus == "label":
        return any(slot.make[0] == "label" for slot in frame.slots.values())
    return focus == "any" or bool(frame.checks or frame.passages)
