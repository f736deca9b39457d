"""Memory of compiled schemas: bytes of each, of a matcher, and of the process after thousands of different ones.

    python -m benchmarks.grammar_memory [--data RANKS] [--limit N] [--sized N] [--json]

Schemas are drawn as for `benchmarks.bounded`, each with a name that no other has. The first `--sized` are measured by
Python's own count of allocations: what the compiled schema holds after eight masks and tokens, and what another matcher
adds to it. Then `--limit` different ones follow each other, none of them kept; resident memory is read ten times.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.masks import load, quantiles
from sluicegate.grammar import GrammarError, LazyGrammar, LazyMatcher, Vocabulary, compile_json_schema

_TOKENS = 8
_MB = 1 << 20


def schema(pick: random.Random, depth: int = 3) -> dict[str, Any]:
    """Draw a schema of the kinds that people write, and of some that they should not."""
    kind = pick.choice(("string", "integer", "number", "object", "array", "enum", "anyOf"))
    more: tuple[dict[str, Any], ...]
    if depth == 0 or kind == "string":
        more = tuple({"pattern": each} for each in ("^[a-z]+$", "^(a|b)*c{2,9}$", "[0-9]{3}", "^.{1,200}$"))
        more += tuple({"format": each} for each in ("date-time", "email", "uuid", "uri"))
        return {"type": "string", **pick.choice((*more, {}, {"maxLength": 40}))}
    if kind in ("integer", "number"):
        return {"type": kind, **pick.choice(({}, {"minimum": -3, "maximum": 10**9}, {"multipleOf": 7}))}
    if kind == "enum":
        return {"enum": [pick.choice(("a", "ab", "b c", 1, 12, None, "x" * 30)) for _ in range(pick.randint(1, 9))]}
    if kind == "anyOf":
        return {"anyOf": [schema(pick, depth - 1) for _ in range(pick.randint(1, 4))]}
    if kind == "array":
        more = ({}, {"minItems": 2, "maxItems": 9}, {"uniqueItems": True}, {"contains": schema(pick, 0)})
        return {"type": "array", "items": schema(pick, depth - 1), **pick.choice(more)}
    names = [pick.choice("abcdefgh") * pick.randint(1, 9) for _ in range(pick.choice((1, 3, 8, 40)))]
    found: dict[str, Any] = {"type": "object", "properties": {name: schema(pick, depth - 1) for name in names}}
    if pick.random() < 0.5:
        found["required"] = sorted(set(pick.choices(names, k=2)))
    if pick.random() < 0.3:
        found["patternProperties"] = {"^[a-c]": schema(pick, 0)}
    return found


def drawn(seed: int) -> dict[str, Any]:
    pick = random.Random(seed)
    name = f"key{seed}"
    return {"type": "object", "properties": {name: schema(pick, 2), "b": schema(pick, 1)}, "required": [name]}


def followed(matcher: LazyMatcher, vocabulary: Vocabulary, seed: int) -> None:
    """Accept a few drawn tokens."""
    pick, row = random.Random(seed), np.zeros(vocabulary.row_words, np.int32)
    for _ in range(_TOKENS):
        matcher.fill_mask(row)
        bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        offered = np.setdiff1d(bits, vocabulary.eos_token_ids)
        if not len(offered):
            return
        matcher.accept(int(pick.choice(offered)))


def used(vocabulary: Vocabulary, seed: int) -> LazyGrammar | None:
    """Return the schema's grammar after a few tokens; None where it is refused."""
    try:
        compiled = compile_json_schema(drawn(seed), vocabulary)
        followed(compiled.matcher(), vocabulary, seed)
    except GrammarError:
        return None
    return compiled


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def sized(vocabulary: Vocabulary, seed: int) -> tuple[float, float] | None:
    """Return kB of a compiled schema, and bytes that another matcher adds; None where the schema is refused."""
    before = traced()
    compiled = used(vocabulary, seed)
    if compiled is None:
        return None
    after = traced()
    matcher = compiled.matcher()
    followed(matcher, vocabulary, seed)
    return (after - before) / 1024, traced() - after


def sizes(vocabulary: Vocabulary, count: int) -> tuple[list[float], list[float]]:
    """Return kB of compiled schemas, and bytes of matchers beside the first of each.

    What the vocabulary keeps for all schemas is worked out by a first round and not counted.
    """
    for seed in range(count):
        used(vocabulary, seed)
    tracemalloc.start()
    found = [each for seed in range(count) if (each := sized(vocabulary, seed)) is not None]
    tracemalloc.stop()
    return [schema_kb for schema_kb, _ in found], [matcher for _, matcher in found]


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * resource.getpagesize() / _MB, 1)


def grown(vocabulary: Vocabulary, count: int) -> list[tuple[int, float]]:
    """Return resident MB after so many different schemas."""
    found = []
    for number in range(1, count + 1):
        used(vocabulary, number)
        if number % max(1, count // 10) == 0:
            gc.collect()
            found.append((number, resident_mb()))
    return found


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 10_000, "schemas that follow each other", endless=True)
    parser.add_argument("--sized", type=int, default=100, help="schemas that are measured, of as many at most")
    asked = parser.parse_args()
    vocabulary, _ = load(asked.data)
    vocabulary.warm()
    schemas, matchers = sizes(vocabulary, min(asked.sized, asked.limit))
    found = {
        "schema_kb": {name: round(value, 1) for name, value in quantiles(schemas)},
        "matcher_bytes": {name: round(value) for name, value in quantiles(matchers)},
        "resident_mb": grown(vocabulary, asked.limit),
    }
    print(common.machine(), json.dumps(found), sep="\n")
    common.report(asked, found)


if __name__ == "__main__":
    main()
