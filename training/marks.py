"""Layouts of no name: the same words before every fact, or runs of marks drawn at random between and within facts."""

from __future__ import annotations

import random

from training.layouts import CASES, Fact, Layout, cased
from training.tables import words


def announced(facts: list[Fact], rng: random.Random) -> str:
    """Put the same words before every label, as notices, resolutions and logs have them: they are no part of a
    value."""
    word = rng.choice(words("common") + words("generic_modifier"))
    opening = rng.choice(
        ["{w} ", "{w}: ", "{w} that ", "{w} the ", "{w} - ", "[{w}] ", "and {w} ", "{w} 1: ", "{w} our "]
    )
    case = rng.choice(CASES)
    opening = case(opening.format(w=word))
    join, end = rng.choice(_ANNOUNCED_JOINS), rng.choice([";", ".", "", ",", " |", "!", ";"])
    low = rng.random() < 0.6
    lines = [f"{opening}{fact.label.lower() if low else fact.label}{join}{fact.shown}{end}" for fact in facts]
    closing = rng.choice(
        ["", "", f"\n{case(word)} THE END", "\nSigned.", "\nSo it was written down.", "\nNothing more."]
    )
    return rng.choice(["", "", "NOTICE\n", "Decided:\n"]) + rng.choice(["\n", "\n", "\n\n", " "]).join(lines) + closing


_ANNOUNCED_JOINS = (" is ", " is ", " was ", ": ", " = ", " shall be ", " being ", ", ", " to be ", " will be ")


def marked(facts: list[Fact], rng: random.Random) -> str:
    """Write facts between one run of marks, label and value between another or a blank: a shape nobody has seen."""
    inner = rng.choice([" ", " ", "  ", *(_mark(rng) for _ in range(4))])
    outer = _mark(rng)
    outer = outer if outer.strip() != inner.strip() else "\n"
    pairs = [f"{cased(fact.label, rng)}{inner}{fact.shown}" for fact in facts]
    edge = rng.choice(["", "", _mark(rng)])
    return edge + outer.join(pairs) + edge


def _mark(rng: random.Random) -> str:
    """Draw one to three marks with or without blanks around; none that a held-out layout is known by."""
    run = "".join(rng.choices("=~:»•*#@&%+^_;.,!?$§()[]{}", k=rng.choice([1, 1, 2, 2, 3])))
    before, after = rng.choice([("", ""), (" ", " "), (" ", " "), ("", " "), ("\n", " "), ("", "\n")])
    return before + run + after


LAYOUTS: tuple[Layout, ...] = (announced,) * 3 + (marked,) * 3
