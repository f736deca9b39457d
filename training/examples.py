"""Whole training examples: messages, schema and answer, rendered by the same functions the gateway serves with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from sluicegate.engine.text.prompt import render_chat, schema_sketch
from training import heldout
from training.documents import Document, Family, sample_document
from training.names import Pool
from training.schemas import Question, sample_question
from training.tables import words


@dataclass(frozen=True, slots=True)
class Example:
    messages: tuple[dict[str, str], ...]
    document: Document
    questions: tuple[Question, ...]
    schemaless: bool = False  # the messages say what is wanted, if anything


def sample_example(
    rng: random.Random, pool: Pool = "train", family: Family = "train", questions: int = 3, max_facts: int = 10
) -> Example:
    document = sample_document(rng, pool, family, max_facts)
    asked = tuple(sample_question(document, rng, varied=family == "train") for _ in range(questions))
    return Example(tuple(_messages(document.text, rng, family)), document, asked)


def _messages(text: str, rng: random.Random, family: Family) -> list[dict[str, str]]:
    pool = words("instructions") if family == "train" else heldout.INSTRUCTIONS
    instruction = rng.choice(pool).replace("{}", rng.choice(words("things")))
    shape = rng.choice(["system", "system", "before", "before", "after", "none"])
    if shape == "system":
        return [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    gap = rng.choice(["\n\n", "\n\n", "\n"])
    content = {"before": f"{instruction}{gap}{text}", "after": f"{text}\n\n{instruction}", "none": text}[shape]
    return [{"role": "user", "content": content}]


def rendered(tokenizer: Any, example: Example) -> tuple[str, list[tuple[str, str]]]:
    """Return the prompt up to the schema, and per question (rest of the prompt, answer).

    The chat template puts the schema last, so all questions about a document share everything before it, and what
    stands around a sketch is the same for all documents: the template is asked once a document.
    """
    prefix = render_chat(tokenizer, example.messages, add_generation_prompt=False)
    before, after, bare = _around_a_sketch(tokenizer)
    if example.schemaless:
        return prefix, [(bare, question.answer) for question in example.questions]
    sketches = [schema_sketch(question.schema) for question in example.questions]
    assert not any("<|" in sketch for sketch in sketches)  # render_chat would defuse it
    return prefix, [
        (f"{before}{sketch}{after}", question.answer)
        for sketch, question in zip(sketches, example.questions, strict=True)
    ]


@cache
def _around_a_sketch(tokenizer: Any) -> tuple[str, str, str]:
    """Return the template's text before a sketch, after it, and in place of all that where there is no schema."""
    messages = [{"role": "user", "content": "text"}]
    prefix = render_chat(tokenizer, messages, add_generation_prompt=False)
    with_sketch = render_chat(tokenizer, messages, schema={"type": "string"})
    bare = render_chat(tokenizer, messages)
    assert with_sketch.startswith(prefix)
    assert bare.startswith(prefix)
    before, after = with_sketch[len(prefix) :].split("string")
    return before, after, bare[len(prefix) :]


def show(seed: int, pool: Pool = "train", family: Family = "train") -> dict[str, Any]:
    example = sample_example(random.Random(seed), pool, family, questions=1)
    return {"messages": example.messages, "schema": example.questions[0].schema, "answer": example.questions[0].answer}
