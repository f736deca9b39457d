"""Measure the cost of forking a matcher, in time and bytes, by the number of tokens it has accepted.

python -m benchmarks.forks [--data RANKS] [--limit N] [--json]
"""

from __future__ import annotations

import gc
import json
import time
import tracemalloc

from benchmarks import common
from benchmarks.masks import load
from sluicegate.grammar import LazyMatcher, compile_json_schema

_FORKS = 2_000
_PLACES = (0, 10, 100, 1_000, 4_000)
"""Tokens that a matcher has accepted when it is forked."""


def main() -> None:
    given = common.parser(__doc__, "llama3/tokenizer.model", 0, "places at which a matcher is forked").parse_args()
    vocabulary, encode = load(given.data)
    tokens = encode(json.dumps([{"name": f"item {i}", "price": i / 4, "tags": ["a", "b"]} for i in range(400)]))
    matcher = compile_json_schema(True, vocabulary).matcher()
    found = []
    for number, token in enumerate(tokens):
        if number in _PLACES[: given.limit or None]:
            found.append({"tokens": number, **_cost(matcher)})
        matcher.accept(token)
    result = {"machine": common.machine(), "forks": found}
    print(result["machine"])
    for row in found:
        print(f"after {row['tokens']:5} tokens: {row['us']:8.2f} us, {row['bytes']:8} bytes a fork")
    common.report(given, result)


def _cost(matcher: LazyMatcher) -> dict[str, float]:
    matcher.fork()
    gc.collect()
    gc.disable()
    began = time.process_time()
    for _ in range(_FORKS):
        matcher.fork()
    took = time.process_time() - began
    gc.enable()
    tracemalloc.start()
    kept = [matcher.fork() for _ in range(50)]
    size = tracemalloc.get_traced_memory()[0] // len(kept)
    tracemalloc.stop()
    return {"us": round(took / _FORKS * 1e6, 2), "bytes": size}


if __name__ == "__main__":
    main()
