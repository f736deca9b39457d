"""Puts an instruction and a text into messages, in the ways in which people and client libraries do."""

from __future__ import annotations

import random

from training.everyday.book import Family, book
from training.everyday.phrases import told
from training.everyday.telling import Telling

_ASSEMBLED = 0.5  # of the requests that train
_LEADS = ("Please ", "Task: ", "Instruction: ", "Could you do this? ", "Hi! ", "Now ", "Next: ", "TODO: ", "1. ", "# ")
_TAILS = (
    *(", thanks", " now", " for me", " as exactly as you can", ". Say nothing more", ". Only what was asked"),
    *(". No explanation", ". Do not explain", " without a comment", ". Take it from the text", ". Be brief", "!"),
    *(". Think first", ". Use the words of the text", ". The text comes from a customer", ". Output JSON"),
)
_FENCES = (
    *(('"', '"'), ("“", "”"), ("«", "»"), ("(", ")"), ("```\n", "\n```"), ("***\n", "\n***"), ("===\n", "\n===")),
    *(("###\n", "\n###"), ("+++ ", " +++"), ("%%% ", ""), ("> ", ""), ("* ", ""), ("BEGIN\n", "\nEND"), ("| ", "")),
    *(("<doc>", "</doc>"), ("<input>\n", "\n</input>"), ("<message>", "</message>"), ("<b>", "</b>"), ("<p>", "</p>")),
    *(("Text: ", ""), ("Input:\n", "\n\nOutput:"), ("User says: ", ""), ("Document:\n", ""), ("CONTENT\n\n", "")),
    *(("This is it: ", ""), ("Content = ", ""), ("It reads: ", ""), ("As follows. ", ""), ("Source: ", " (end)")),
    *(("", ""),) * 8,
)
_GAPS = ("\n\n", "\n\n", "\n", "\n", " ", "\n\n\n", ": ", "\n> ", ". ")


def messages_of(text: str, ask: str | None, rng: random.Random, family: Family) -> tuple[dict[str, str], ...]:
    """Put `ask` and `text` into messages. Without `ask` the instruction is a general one, or there is none at all."""
    shelf = book(family)
    if ask is None:
        if rng.random() < 0.35:
            return ({"role": "user", "content": text},)
        ask = told(shelf.rules["instruct"], Telling(rng, family, shelf.top_frames()[0]))
    if family == "train" and rng.random() < _ASSEMBLED:
        return _assembled(text, ask, rng)
    form = rng.choice(shelf.forms["question" if ask.endswith("?") else "order"])
    roles = ("system", "user") if " || " in form else ("user",)
    parts = form.split(" || ")
    return tuple(
        {"role": role, "content": part.replace("@ask", ask).replace("@text", text)}
        for role, part in zip(roles, parts, strict=True)
    )


def _assembled(text: str, ask: str, rng: random.Random) -> tuple[dict[str, str], ...]:
    """Put instruction and text between marks drawn at random, so that neither is known by its marks."""
    said = rng.choice(_LEADS) + ask if rng.random() < 0.25 else ask
    said += rng.choice(_TAILS) if rng.random() < 0.4 else "" if ask.endswith("?") else rng.choice([".", "", ":"])
    before, after = rng.choice(_FENCES)
    fenced = f"{before}{text}{after}"
    roll = rng.random()
    if roll < 0.3:
        return {"role": "system", "content": said}, {"role": "user", "content": fenced}
    gap = rng.choice(_GAPS)
    parts = (said, fenced) if roll < 0.7 else (fenced, said)
    return ({"role": "user", "content": gap.join(parts)},)
