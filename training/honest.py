"""Requests the model cannot answer, and the one sentence (or null) with which it says so."""

from __future__ import annotations

import random
from typing import Literal

from training import everyday
from training.documents import Document
from training.examples import Example
from training.schemas import Question
from training.tables import table
from training.values import quoted

OpenFamily = Literal["train", "heldout"]


def sample_open(rng: random.Random, family: OpenFamily = "train") -> Example:
    """Compose a question about the world, a wish or a greeting, mostly without a schema; nothing in it can be
    extracted."""
    entries = table("open")
    roll = rng.random()
    if roll < 0.12:
        return _statement(rng, family)
    if roll < 0.25:
        text, answer = rng.choice(_listed("greetings", family)), str(entries["greeting"])
    else:
        text, answer = _asked(rng, family), str(entries["answer"])
    messages = [{"role": "user", "content": _loosely(text, rng)}]
    if rng.random() < 0.3:
        messages.insert(0, {"role": "system", "content": "You are a helpful assistant."})
    document = Document(text, (), (), "")
    if rng.random() < 0.35:
        return Example(tuple(messages), document, (_under_a_schema(answer, rng),))
    return Example(tuple(messages), document, (Question({}, answer, ()),), schemaless=True)


def _statement(rng: random.Random, family: OpenFamily) -> Example:
    """Compose a text and no word about what is wanted of it."""
    text = everyday.sample(rng, family, questions=1).document.text
    answer = Question({}, str(table("open")["statement"]), ())
    return Example(({"role": "user", "content": text},), Document(text, (), (), ""), (answer,), schemaless=True)


def _asked(rng: random.Random, family: OpenFamily) -> str:
    def one(name: str) -> str:
        return rng.choice(_listed(name, family))

    numbers = {"n": str(rng.randint(2, 99)), "m": str(rng.randint(2, 99))}
    words = {"t": one("topics"), "u": one("topics"), "a": one("claims"), "w": one("things")}
    places = {"f": rng.choice(_listed("food", "train")), "c": rng.choice(_listed("countries", "train"))}
    return one("open").format(**numbers, **words, **places)


def _listed(name: str, family: OpenFamily) -> list[str]:
    found: list[str] = table("open")[name if family == "train" else f"heldout_{name}"]
    return found


def _loosely(text: str, rng: random.Random) -> str:
    """Write `text` as people type it: now and then in lower case or without the last mark."""
    text = text.lower() if rng.random() < 0.15 else text
    return text.rstrip("?.!") if rng.random() < 0.15 else text


def _under_a_schema(answer: str, rng: random.Random) -> Question:
    key = rng.choice(list(table("open")["keys"]))
    nullable = rng.random() < 0.35
    schema = {
        "type": "object",
        "properties": {key: {"anyOf": [{"type": "string"}, {"type": "null"}]} if nullable else {"type": "string"}},
        "required": [key],
        "additionalProperties": False,
    }
    raw = "null" if nullable else quoted(answer)
    return Question(schema, f"{{{quoted(key)}:{raw}}}", ((key, "string"),))
