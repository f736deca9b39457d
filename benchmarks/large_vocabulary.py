"""A vocabulary of 256,000 tokens: CPU time until it is ready for the first mask.

    python -m benchmarks.large_vocabulary [--data RANKS] [--tokens N] [--json]

The tokens of RANKS, and words of two to nine letters of seven scripts, drawn from a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from benchmarks import common
from benchmarks.masks import load
from sluicegate.grammar import Vocabulary
from sluicegate.grammar.budget.clock import worked_s

_SCRIPTS = ("\u0430\u044f", "\u03b1\u03c9", "\u3041\u3096", "\u4e00\u5000", "\u0627\u064a", "\u0905\u0939", "az")
"""First and last letter."""


def enlarged(words: Sequence[bytes], size: int, seed: int = 0) -> list[bytes]:
    """Return `words` and drawn ones, `size` together."""
    pick = random.Random(seed)
    found, known = list(words), set(words)
    while len(found) < size:
        first, last = map(ord, pick.choice(_SCRIPTS))
        word = " " * pick.randint(0, 1) + "".join(chr(pick.randint(first, last)) for _ in range(pick.randint(2, 9)))
        if word.encode() not in known:
            known.add(word.encode())
            found.append(word.encode())
    return found


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0)
    parser.add_argument("--tokens", type=int, default=256_000)
    asked = parser.parse_args()
    smaller, _ = load(asked.data)
    words = enlarged(smaller.words, asked.tokens)
    first = Vocabulary.from_bytes([*words[:300], b""], eos_token_ids=[300])
    first.warm()  # compiled loops are loaded before the clock runs
    began = worked_s()
    Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)]).warm()
    found = {"tokens": len(words), "cpu_s": round(worked_s() - began, 2)}
    print(common.machine(), json.dumps(found), sep="\n")


if __name__ == "__main__":
    main()
