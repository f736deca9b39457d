"""What a vocabulary keeps for all schemas takes no more memory than its caches count."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np

from sluicegate.grammar import compile_json_schema
from tests.grammar.grammar_checks import byte_vocabulary


def test_the_rests_of_words_are_counted_as_large_as_they_are() -> None:
    vocabulary = byte_vocabulary()
    row = np.zeros(vocabulary.row_words, np.int32)
    before = vocabulary.rests.bytes

    def use(part: int) -> None:
        names = [f"name{part}x{number}" for number in range(20)]
        matcher = compile_json_schema({"properties": {name: {} for name in names}}, vocabulary).matcher()
        for byte in b'{"name':
            matcher.accept(byte)
        matcher.fill_mask(row)

    use(-1)
    gc.collect()
    tracemalloc.start()
    try:
        for part in range(100):
            use(part)
        gc.collect()
        held = sum(
            trace.size
            for trace in tracemalloc.take_snapshot().statistics("filename")
            if trace.traceback[0].filename.endswith(("lru.py", "words.py", "token_ids.py"))
        )
    finally:
        tracemalloc.stop()
    assert vocabulary.rests.bytes - before > 300_000
    assert held <= vocabulary.rests.bytes - before
