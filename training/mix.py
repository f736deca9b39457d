"""The mixture that training draws from: short everyday requests, documents of many subjects, and a few others."""

from __future__ import annotations

import random
from dataclasses import replace

from training import everyday
from training.examples import Example, sample_example
from training.honest import sample_open
from training.prompted import prompted

EVERYDAY, OPEN, PROMPTED = 0.5, 0.08, 0.25
LABEL, CHECK = 0.3, 0.16  # of the everyday requests: a label alone, a yes or no alone


def sample_mixed(rng: random.Random, questions: int, max_facts: int) -> Example:
    """Draw one example of the train family."""
    if rng.random() < OPEN:
        return sample_open(rng)
    if rng.random() < EVERYDAY:
        example = everyday.sample(rng, "train", questions, focus=_focus(rng))
    else:
        example = sample_example(rng, questions=questions, max_facts=max_facts)
    return in_the_prompt(example, rng) if rng.random() < PROMPTED else example


def in_the_prompt(example: Example, rng: random.Random) -> Example:
    """Return the example with its first question alone, whose fields the messages name."""
    question = example.questions[0]
    return replace(
        example,
        messages=tuple(prompted(example.messages, question, rng)),
        questions=(question,),
        schemaless=True,
    )


def _focus(rng: random.Random) -> everyday.Focus:
    roll = rng.random()
    return "label" if roll < LABEL else "check" if roll < LABEL + CHECK else "any"
