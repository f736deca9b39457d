"""Exact match of the bundled model's answers, on documents and names that training never saw.

`python -m training.evaluate [--model FOLDER] [--documents 200] [--json]`: four sets (training or held-out templates,
made-up or real-looking names) and a subject of its own, each decoded greedily, free and under the product's grammar.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.engine.text.prompt import render_chat
from training.decode import Matcher, greedy
from training.documents import Family
from training.examples import Example, sample_example
from training.names import Pool
from training.schemas import Question

SETS: tuple[tuple[str, Pool, Family], ...] = (
    ("train templates, made-up names", "made", "train"),
    ("train templates, real-looking names", "heldout", "train"),
    ("held-out templates, made-up names", "made", "heldout"),
    ("held-out templates, real-looking names", "heldout", "heldout"),
    ("held-out subject, real-looking names", "heldout", "heldout_subject"),
)
_MISSING = object()


@dataclass
class Score:
    """Counts of right and asked fields, in all and by kind, and of answers right as a whole."""

    right: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)

    def add(self, question: Question, answer: str) -> None:
        parsed, wanted = _parsed(answer), json.loads(question.answer)
        for path, kind in question.kinds:
            right = _same(_at(parsed, path), _at(wanted, path))
            for name in ("fields", kind):
                self.asked[name] += 1
                self.right[name] += right
        self.asked["answers"] += 1
        self.right["answers"] += _same(parsed, wanted)

    def shares(self) -> dict[str, float]:
        return {name: round(self.right[name] / self.asked[name], 4) for name in sorted(self.asked)}


def _parsed(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return _MISSING


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part, _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON values: 12.50 is 12.5, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def sample_set(pool: Pool, family: Family, documents: int, seed: int) -> list[Example]:
    rng = random.Random(f"evaluation-{pool}-{family}-{seed}")
    return [sample_example(rng, pool, family, questions=1) for _ in range(documents)]


def prompts_of(tokenizer: Any, examples: Sequence[Example]) -> list[str]:
    return [render_chat(tokenizer, example.messages, schema=example.questions[0].schema) for example in examples]


def answers_of(
    model: Any, tokenizer: Any, examples: Sequence[Example], constrained: bool, batch: int = 32, limit: int = 320
) -> Iterator[str]:
    """Answers in order. Constrained: each under its schema, compiled by `grammar`."""
    vocabulary = _vocabulary(tokenizer, model) if constrained else None
    for start in range(0, len(examples), batch):
        part = examples[start : start + batch]
        matchers = [_matcher(example.questions[0].schema, vocabulary) for example in part] if constrained else None
        yield from greedy(model, tokenizer, prompts_of(tokenizer, part), limit, matchers)


def _vocabulary(tokenizer: Any, model: Any) -> Any:
    from sluicegate.grammar import Vocabulary

    return Vocabulary.from_tokenizer(tokenizer)


def _matcher(schema: dict[str, Any], vocabulary: Any) -> Matcher:
    from sluicegate.grammar import compile_json_schema

    matcher: Matcher = compile_json_schema(schema, vocabulary).matcher()
    return matcher


def score_set(model: Any, tokenizer: Any, examples: Sequence[Example], constrained: bool, limit: int = 320) -> Score:
    score = Score()
    for example, answer in zip(examples, answers_of(model, tokenizer, examples, constrained, limit=limit), strict=True):
        score.add(example.questions[0], answer)
    return score


def quick_score(model: Any, tokenizer: Any, documents: int = 32) -> dict[str, float]:
    """Free decoding of few documents of the easiest and the hardest set; for the log of a training run."""
    easy = score_set(model, tokenizer, sample_set("made", "train", documents, seed=0), False, limit=130)
    hard = score_set(model, tokenizer, sample_set("heldout", "heldout", documents, seed=0), False, limit=130)
    return {
        "seen": easy.shares()["fields"],
        "heldout": hard.shares()["fields"],
        "heldout_answers": hard.shares()["answers"],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(__file__).resolve().parent.parent / "engine" / "bundled")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--free-only", action="store_true", help="leave out constrained decoding")
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers of every set")
    parser.add_argument("--json", action="store_true", help="print everything as JSON on the last line")
    options = parser.parse_args(arguments)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    report: dict[str, dict[str, float]] = {}
    for name, pool, family in SETS:
        examples = sample_set(pool, family, options.documents, options.seed)
        for constrained in (False,) if options.free_only else (False, True):
            score = Score()
            shown = 0
            for example, answer in zip(examples, answers_of(model, tokenizer, examples, constrained), strict=True):
                question = example.questions[0]
                score.add(question, answer)
                if shown < options.show and not _same(_parsed(answer), json.loads(question.answer)):
                    shown += 1
                    print(f"--- {example.document.text}\nwanted {question.answer}\ngot    {answer}")
            label = f"{name}, {'constrained' if constrained else 'free'}"
            report[label] = score.shares()
            print(f"{label}: {score.asked['fields']} fields: {report[label]}", flush=True)
    if options.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
