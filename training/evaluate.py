"""Exact match of the bundled model's answers, on documents, requests and names that training never saw.

`python -m training.evaluate [--model FOLDER] [--fields 500] [--json]`: every set is decoded greedily under the grammar
of the product (and free with `--free`), and each share stands with its 95 % interval (Wilson).
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.answer.json_values import same
from sluicegate.gateway.commands.statistics import share
from training import everyday
from training.decode import Matcher, greedy
from training.documents import Family
from training.examples import Example, sample_example
from training.honest import sample_open
from training.mix import in_the_prompt
from training.names import Pool
from training.schemas import Question

Sampler = Callable[[random.Random], Example]


def _documents(pool: Pool, family: Family) -> Sampler:
    return lambda rng: sample_example(rng, pool, family, questions=1)


def _everyday(rng: random.Random) -> Example:
    return everyday.sample(rng, "heldout", questions=1)


def _prompted(rng: random.Random) -> Example:
    sampler = _everyday if rng.random() < 0.7 else _documents("heldout", "heldout")
    return in_the_prompt(sampler(rng), rng)


SETS: dict[str, Sampler] = {
    "layouts of training, real-looking names": _documents("heldout", "train"),
    "held-out layouts and wordings, real-looking names": _documents("heldout", "heldout"),
    "held-out subjects and field names, real-looking names": _documents("heldout", "heldout_subject"),
    "everyday requests, unseen": _everyday,
    "fields named in the prompt, unseen": _prompted,
    "open questions, unseen": lambda rng: sample_open(rng, "heldout"),
}
_MISSING = object()


@dataclass
class Score:
    """Counts of right and asked fields, in all and by kind, and of answers right as a whole."""

    right: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)

    def add(self, question: Question, answer: str) -> None:
        parsed, wanted = _parsed(answer), _parsed(question.answer)
        for path, kind in question.kinds:
            right = same(_at(parsed, path), _at(wanted, path))
            for name in ("fields", kind):
                self.asked[name] += 1
                self.right[name] += right
        self.asked["answers"] += 1
        self.right["answers"] += answer == question.answer if wanted is _MISSING else same(parsed, wanted)

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


def sample_set(sampler: Sampler, fields: int, seed: int) -> list[Example]:
    """Draw examples that ask for so many fields in all; an open question counts as one."""
    rng = random.Random(f"evaluation-{seed}")
    examples: list[Example] = []
    asked = 0
    while asked < fields:
        examples.append(sampler(rng))
        asked += max(1, len(examples[-1].questions[0].kinds))
    return examples


def prompt_of(tokenizer: Any, example: Example) -> str:
    return render_chat(tokenizer, example.messages, schema=None if example.schemaless else example.questions[0].schema)


def answers_of(
    model: Any, tokenizer: Any, examples: Sequence[Example], constrained: bool, batch: int = 32, limit: int = 320
) -> Iterator[str]:
    """Yield answers in order. Constrained: each under its schema, compiled by `grammar`."""
    vocabulary = _vocabulary(tokenizer) if constrained else None
    prompts = [prompt_of(tokenizer, example) for example in examples]
    answers: dict[int, str] = {}
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        matchers = [_matcher(examples[number], vocabulary) for number in part] if constrained else None
        found = greedy(model, tokenizer, [prompts[number] for number in part], limit, matchers)
        answers |= dict(zip(part, found, strict=True))
    yield from (answers[number] for number in range(len(prompts)))


def _vocabulary(tokenizer: Any) -> Any:
    from sluicegate.grammar import Vocabulary

    return Vocabulary.from_tokenizer(tokenizer)


def _matcher(example: Example, vocabulary: Any) -> Matcher | None:
    """Return a matcher of the question's schema. Where the messages name the fields, any object passes; None where a
    sentence is the answer."""
    from sluicegate.grammar import compile_json_schema

    question = example.questions[0]
    if example.schemaless and not question.kinds:
        return None
    schema = {"type": "object"} if example.schemaless else question.schema
    matcher: Matcher = compile_json_schema(schema, vocabulary).matcher()
    return matcher


def score_set(model: Any, tokenizer: Any, examples: Sequence[Example], constrained: bool, limit: int = 320) -> Score:
    score = Score()
    for example, answer in zip(examples, answers_of(model, tokenizer, examples, constrained, limit=limit), strict=True):
        score.add(example.questions[0], answer)
    return score


def quick_score(model: Any, tokenizer: Any, fields: int = 40) -> dict[str, float]:
    """Score the free decoding of few examples of the sets that matter; for the log of a training run."""
    sets = {"heldout": "held-out layouts and wordings, real-looking names", "everyday": "everyday requests, unseen"}
    sets |= {"subjects": "held-out subjects and field names, real-looking names"}
    return {
        short: score_set(model, tokenizer, sample_set(SETS[name], fields, seed=0), False, limit=130).shares()["fields"]
        for short, name in sets.items()
    }


def line_of(name: str, score: Score) -> str:
    """Return one row of the table in `docs/bundled-model.md`."""
    counted = "fields" if score.asked["fields"] else "answers"
    right, asked = score.right[counted], score.asked[counted]
    found = share(right, asked)
    shown = "-" if found is None else f"{found.value:.0%} ({found.low:.0%} to {found.high:.0%})"
    whole = score.right["answers"] / score.asked["answers"]
    return f"| {name} | {asked} | {shown} | {whole:.0%} |"


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path(__file__).resolve().parent.parent / "engine" / "bundled")
    parser.add_argument("--fields", type=int, default=500, help="of every set, at least")
    parser.add_argument("--sets", default="", help="only those whose name holds this")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--free", action="store_true", help="decode without the grammar too")
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers of every set")
    parser.add_argument("--json", action="store_true", help="print everything as JSON on the last line")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse_options(arguments)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    report: dict[str, dict[str, float]] = {}
    for name, sampler in SETS.items():
        if options.sets not in name:
            continue
        examples = sample_set(sampler, options.fields, options.seed)
        for constrained in (True, False) if options.free else (True,):
            score = _scored(model, tokenizer, examples, constrained, options.show)
            label = f"{name}, {'constrained' if constrained else 'free'}"
            report[label] = score.shares()
            print(f"{line_of(label, score)}\n    {report[label]}", flush=True)
    if options.json:
        print(json.dumps(report))


def _scored(model: Any, tokenizer: Any, examples: Sequence[Example], constrained: bool, show: int) -> Score:
    score = Score()
    for example, answer in zip(examples, answers_of(model, tokenizer, examples, constrained), strict=True):
        question, before = example.questions[0], score.right["answers"]
        score.add(question, answer)
        if show and score.right["answers"] == before:
            show -= 1
            print(f"--- {example.messages}\n{question.schema}\nwanted {question.answer}\ngot    {answer}")
    return score


if __name__ == "__main__":
    main()
