"""A vocabulary of 256,000 tokens: CPU time until it is ready for the first mask, made anew and from disk.

    python -m benchmarks.large_vocabulary [--data RANKS] [--tokens N] [--limit N] [--json]

The tokens of RANKS, and words of two to nine letters of seven scripts, drawn from a seed.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import common
from benchmarks.masks import load
from sluicegate.grammar import Vocabulary
from sluicegate.grammar.budget.clock import worked_s
from sluicegate.grammar.classification.classify import prepare
from sluicegate.grammar.store import snapshot
from sluicegate.grammar.store.folder import Folder

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


def from_disk(like: Vocabulary, folder: Folder) -> float:
    """Return the CPU seconds until the same vocabulary is ready for the first mask with what `folder` holds."""
    began = worked_s()
    found = Vocabulary.from_bytes(like.words, eos_token_ids=like.eos_token_ids)
    if not snapshot.restore(found, folder):
        raise SystemExit("the folder does not hold the vocabulary that was just written")
    prepare(found)
    return worked_s() - began


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 3, "readings from disk; the least counts", endless=True)
    parser.add_argument("--tokens", type=int, default=256_000)
    asked = parser.parse_args()
    smaller, _ = load(asked.data)
    words = enlarged(smaller.words, asked.tokens)
    first = Vocabulary.from_bytes([*words[:300], b""], eos_token_ids=[300])
    first.warm()  # compiled loops are loaded before the clock runs
    began = worked_s()
    made = Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)]).warm()
    found = {"tokens": len(words), "cpu_s": round(worked_s() - began, 2)}
    prepare(made)
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place))
        snapshot.keep(made, folder)
        found["from_disk_cpu_s"] = round(min(from_disk(made, folder) for _ in range(asked.limit)), 2)
    print(common.machine(), json.dumps(found), sep="\n")
    common.report(asked, found)


if __name__ == "__main__":
    main()
