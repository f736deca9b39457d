"""Puts an instruction and a text into messages, in the ways in which people and client libraries do."""

from __future__ import annotations

import random

from training.everyday.book import Family, book
from training.everyday.phrases import told
from training.everyday.telling import Telling


def messages_of(text: str, ask: str | None, rng: random.Random, family: Family) -> tuple[dict[str, str], ...]:
    """Without `ask` a general instruction, or none at all."""
    shelf = book(family)
    if ask is None:
        if rng.random() < 0.35:
            return ({"role": "user", "content": text},)
        ask = told(shelf.rules["instruct"], Telling(rng, family, shelf.top_frames()[0]))
    form = rng.choice(shelf.forms["question" if ask.endswith("?") else "order"])
    roles = ("system", "user") if " || " in form else ("user",)
    parts = form.split(" || ")
    return tuple(
        {"role": role, "content": part.replace("@ask", ask).replace("@text", text)}
        for role, part in zip(roles, parts, strict=True)
    )
