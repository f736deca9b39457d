"""How often the model puts a text into the right class, by kind of text: `python -m training.labels [--model FOLDER]`.

Nothing is decoded: of the answers that a schema allows, one for each option, that with the highest likelihood counts.
So a model that is no better than guessing shows as one, on phrases that were trained and on those that were not, and
beside its share stands what guessing would get.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training import everyday
from training.evaluate import prompt_of
from training.everyday.book import Family, book
from training.examples import Example

BUNDLED = Path(__file__).resolve().parent.parent / "engine" / "bundled"
CHECKS = "yes or no"


@dataclass(frozen=True, slots=True)
class Choice:
    """A prompt, the answers that its schema allows, and which of them is right."""

    prompt: str
    answers: tuple[str, ...]
    right: int


def choice_of(tokenizer: Any, example: Example) -> Choice | None:
    """Return the choice that the first question is; None where it asks for more than one label."""
    question = example.questions[0]
    key, *others = question.schema["properties"]
    schema = question.schema["properties"][key]
    options = schema.get("enum") or ([True, False] if schema.get("type") == "boolean" else [])
    answers = tuple(json.dumps({key: option}, ensure_ascii=False, separators=(",", ":")) for option in options)
    if others or question.answer not in answers:
        return None
    return Choice(prompt_of(tokenizer, example), answers, answers.index(question.answer))


def choices(tokenizer: Any, family: Family, frame: str | None, many: int, seed: int = 5) -> list[Choice]:
    """Draw so many choices about texts of one kind; without `frame` questions answered by yes or no about texts of all
    kinds."""
    rng = random.Random(f"{seed}-{family}-{frame}")
    found: list[Choice] = []
    while len(found) < many:
        example = everyday.sample(rng, family, 1, frame, "label" if frame else "check")
        if choice := choice_of(tokenizer, example):
            found.append(choice)
    return found


@torch.no_grad()
def chosen(model: Any, tokenizer: Any, choice: Choice) -> int:
    """Return the number of the likeliest answer."""
    prompt = tokenizer.encode(choice.prompt, add_special_tokens=False)
    rows = [[*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id] for answer in choice.answers]
    width = max(map(len, rows))
    ids = torch.tensor([prompt + row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    laws = torch.log_softmax(model(input_ids=ids).logits[:, len(prompt) - 1 : -1].float(), -1)
    likelihoods = [
        sum(float(laws[number, place, token]) for place, token in enumerate(row)) for number, row in enumerate(rows)
    ]
    return likelihoods.index(max(likelihoods))


def kinds(family: Family) -> Iterator[str | None]:
    """Yield the kinds of text that have a label, then None for yes or no."""
    for frame in book(family).top_frames():
        if any(slot.make[0] == "label" for slot in frame.slots.values()):
            yield frame.name
    yield None


def right_share(model: Any, tokenizer: Any, asked: Sequence[Choice]) -> tuple[float, float]:
    """Return the share that is right, and the one that guessing would get."""
    right = sum(chosen(model, tokenizer, choice) == choice.right for choice in asked)
    return right / len(asked), sum(1 / len(choice.answers) for choice in asked) / len(asked)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=BUNDLED)
    parser.add_argument("--many", type=int, default=60, help="texts of each kind")
    options = parser.parse_args(arguments)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    families: tuple[Family, ...] = ("train", "heldout")
    for family in families:
        for frame in kinds(family):
            right, guessed = right_share(model, tokenizer, choices(tokenizer, family, frame, options.many))
            print(f"{family}  {frame or CHECKS}: {right:.0%} right, {guessed:.0%} by guessing", flush=True)


if __name__ == "__main__":
    main()
