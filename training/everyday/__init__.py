"""Short everyday requests: a sentence or two, and what people ask about them. The door is `sample`."""

from __future__ import annotations

import random

from training.documents import Document
from training.everyday.asking import asked
from training.everyday.book import Family, book
from training.everyday.forms import messages_of
from training.everyday.telling import tell
from training.examples import Example

__all__ = ["Family", "sample"]


def sample(rng: random.Random, family: Family = "train", questions: int = 3, frame: str | None = None) -> Example:
    """One short request with several questions about it; `frame` asks for one kind of text."""
    frames = book(family).top_frames()
    chosen = book(family).frames[frame] if frame else rng.choices(frames, [one.weight for one in frames])[0]
    about = tell(rng, family, chosen)
    what = asked(rng, family, about, questions)
    messages = messages_of(about.text, what.ask, rng, family)
    return Example(messages, Document(about.text, (), (), about.currency or ""), what.questions)
