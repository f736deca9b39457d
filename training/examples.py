"""Whole training examples: messages, schema and answer, rendered by the same functions the gateway serves with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from sluicegate.engine.text.prompt import ChatTokenizer, render_chat
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
    in_words: int = 0  # so many of the questions come without a schema


def sample_example(
    rng: random.Random, pool: Pool = "train", family: Family = "train", questions: int = 3, max_facts: int = 10
) -> Example:
    document = sample_document(rng, pool, family, max_facts)
    asked = tuple(sample_question(document, rng) for _ in range(questions))
    in_words = int(family == "train" and questions > 1 and rng.random() < 0.15)
    return Example(tuple(_messages(document.text, rng, family)), document, asked, in_words)


def _messages(text: str, rng: random.Random, family: Family) -> list[dict[str, str]]:
    pool = words("instructions") if family == "train" else heldout.INSTRUCTIONS
    instruction = rng.choice(pool).replace("{}", rng.choice(words("things")))
    shape = rng.choice(["system", "system", "before", "before", "after", "none"])
    if shape == "system":
        return [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    gap = rng.choice(["\n\n", "\n\n", "\n"])
    content = {"before": f"{instruction}{gap}{text}", "after": f"{text}\n\n{instruction}", "none": text}[shape]
    return [{"role": "user", "content": content}]


def rendered(tokenizer: ChatTokenizer, example: Example) -> tuple[str, list[tuple[str, str]]]:
    """The prompt up to the schema, and per question (rest of the prompt, answer).

    The chat template puts the schema last, so all questions about a document share everything before it.
    """
    prefix = render_chat(tokenizer, example.messages, add_generation_prompt=False)
    branches = []
    for number, question in enumerate(example.questions):
        if number < example.in_words and _can_be_put_in_words(question):
            prompt = render_chat(tokenizer, asked_in_words(example, question))
        else:
            prompt = render_chat(tokenizer, example.messages, schema=question.schema)
        assert prompt.startswith(prefix)
        branches.append((prompt[len(prefix) :], question.answer))
    return prefix, branches


def _can_be_put_in_words(question: Question) -> bool:
    """A flat schema, all of whose properties the text answers: a list of names says nothing about the rest."""
    leaves = {path for path, _ in question.kinds}
    return (
        leaves == set(question.schema["properties"])
        and "null" not in question.answer
        and "{" not in question.answer[1:]
    )


def asked_in_words(example: Example, question: Question) -> list[dict[str, str]]:
    """The messages with the properties named in the user's own words, for requests that carry no schema."""
    keys = list(question.schema["properties"])
    named = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 else keys[0]
    last = example.messages[-1]
    return [*example.messages[:-1], {**last, "content": f"{last['content']}\n\nReturn JSON with {named}."}]


def show(seed: int, pool: Pool = "train", family: Family = "train") -> dict[str, Any]:
    example = sample_example(random.Random(seed), pool, family, questions=1)
    return {"messages": example.messages, "schema": example.questions[0].schema, "answer": example.questions[0].answer}
