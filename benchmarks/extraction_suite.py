"""A suite for `sluicegate eval`, made from a seed: fields of documents in layouts that the bundled model never saw.

    python -m benchmarks.extraction_suite 60 > suite.jsonl
    sluicegate eval suite.jsonl --variant masks --variant off:schema=in_prompt

On whose cases: the generator that trained the bundled model, its held-out family (`training/heldout.py`). They
compare versions, and say little of documents from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import Any

from training.examples import sample_example


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args()
    for case in cases_of(parsed.cases, parsed.seed):
        print(json.dumps(case))


def cases_of(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield cases for `sluicegate eval`. The check `fields` tells how many leaves are right, `json` whether the whole
    is."""
    rng = random.Random(seed)
    for number in range(count):
        example = sample_example(rng, "heldout", "heldout", questions=1)
        question = example.questions[0]
        yield {
            "id": f"document {number}",
            "messages": list(example.messages),
            "schema": question.schema,
            "expected": json.loads(question.answer),
            "checks": ["fields", "schema", "json"],
            "request": {"max_tokens": 300},
            "tags": [f"{len(question.kinds)} fields"],
        }


if __name__ == "__main__":
    main()
