"""Measure hostile schemas, patterns and grammars: CPU time and memory until the result, and the result.

    python -m benchmarks.hostile [--limit N] [--json]

Each case is compiled with a vocabulary of single bytes, in a process forked for it, so that its peak of memory is no
other case's; the first mask is filled, a completion asked.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks import common
from sluicegate.grammar import (
    GrammarError,
    LazyGrammar,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_regex,
    compile_structural_tags,
)

BYTES = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])


def nested(depth: int, wrap: Callable[[Any], Any], inner: Any = True) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def schema(value: Any) -> Callable[[], LazyGrammar]:
    return lambda: compile_json_schema(value, BYTES)


def text(pattern: str) -> Callable[[], LazyGrammar]:
    return lambda: compile_regex(pattern, BYTES)


def _strings(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _big() -> str:
    names = {f"name{i:06}": {"type": "string", "description": "x" * 60} for i in range(48_000)}
    return json.dumps({"type": "object", "properties": names})


CASES: dict[str, Callable[[], LazyGrammar]] = {
    "pattern (a*)*b": schema(_strings("^(a*)*b$")),
    "pattern (a|a)*..": schema(_strings("^(a|a|aa)*(a|b|ab)*(a|c)*$")),
    "pattern .*a.{20}": schema(_strings("^.*a.{20}$")),
    "pattern {1,100000}": schema(_strings("^a{1,100000}$")),
    "pattern (.{1,300}){1,300}": schema(_strings("^(.{1,300}){1,300}$")),
    "pattern nested groups": schema(_strings("(" * 5_000 + "a" + ")" * 5_000)),
    "pattern many lookaheads": schema(_strings("^" + "".join(f"(?=.*{c}.{{3}})" for c in "abcdefghij") + ".*$")),
    "pattern 200 kB": schema(_strings("|".join(f"w{i}" for i in range(30_000)))),
    "regex .*a.{20}": text(r".*a.{20}"),
    "regex (x+x+)+y": text(r"(x+x+)+y"),
    "enum 10,000": schema({"enum": [f"value {i} of many" for i in range(10_000)]}),
    "enum 100,000 numbers": schema({"enum": list(range(100_000))}),
    "anyOf 10,000": schema(
        {"anyOf": [{"type": "object", "properties": {f"p{i}": {}}, "required": [f"p{i}"]} for i in range(10_000)]}
    ),
    "oneOf 1,000 strings": schema({"oneOf": [_strings(f"^a{i}b*$") for i in range(1_000)]}),
    "allOf 1,000 anyOf": schema({"allOf": [{"anyOf": [{"minimum": i}, {"maxLength": i}]} for i in range(1_000)]}),
    "not of not 150": schema(nested(150, lambda inner: {"not": inner}, {"type": "string", "minLength": 2})),
    "deep 10,000": schema(nested(10_000, lambda inner: {"properties": {"a": inner}})),
    "deep JSON text 100,000": schema('{"items":' * 100_000 + "{}" + "}" * 100_000),
    "cyclic $ref": schema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    "cyclic allOf": schema({"allOf": [{"$ref": "#"}]}),
    "endless required": schema({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
    "5 MB of properties": lambda: compile_json_schema(_big(), BYTES),
    "minItems 10**9": schema({"type": "array", "minItems": 10**9}),
    "minLength 10**18": schema({"type": "string", "minLength": 10**18}),
    "minimum 10**4000": schema({"minimum": 10**4000}),
    "number 1e100000": lambda: compile_json_schema('{"const": 1e100000}', BYTES),
    "multipleOf 1e-300": schema({"multipleOf": 1e-300}),
    "multipleOf big prime": schema({"type": "integer", "multipleOf": 1_000_003}),
    "lone surrogate": schema({"const": "\ud800"}),
    "patternProperties 39": schema(
        {"patternProperties": {f"^.*{chr(97 + i % 26)}.{{{i % 5}}}": {} for i in range(39)}}
    ),
    "contains 12": schema({"allOf": [{"contains": {"const": i}} for i in range(12)], "type": "array"}),
    "dependentRequired 300": schema(
        {"dependentRequired": {f"k{i}": [f"k{i + 1}"] for i in range(300)}, "type": "object"}
    ),
    "lark ambiguous": lambda: compile_lark('start: a\na: a a | "x" | a a a', BYTES),
    "lark 100 kB": lambda: compile_lark("start: " + " | ".join(f'"word{i}"' for i in range(7_000)), BYTES),
    "tags 1,000": lambda: compile_structural_tags(
        {
            "structures": [{"begin": f"<t{i}>", "schema": {"type": "object"}, "end": "</t>"} for i in range(1_000)],
            "triggers": ["<t"],
        },
        BYTES,
    ),
}


def outcome(make: Callable[[], LazyGrammar]) -> str:
    try:
        matcher = make().matcher()
        matcher.fill_mask(np.zeros(BYTES.row_words, np.int32))
        return "whole" if matcher.shortest_completion() is not None else "compiled, no short way to the end"
    except GrammarError as error:
        return f"{type(error).__name__}: {error.reason[:90]}"


def measured(make: Callable[[], LazyGrammar]) -> dict[str, Any]:
    """Return what one case costs: CPU seconds, and the peak of memory in megabytes above what is there before."""
    return in_child(lambda: _cost(make))


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do `work` in a process forked for it, and return what it returns. Raises `RuntimeError` where it raises or
    dies."""
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe(duplex=False)
    child = forking.Process(target=_send, args=(work, theirs))
    child.start()
    theirs.close()
    try:
        found: dict[str, Any] | str = ours.recv()
    except EOFError:
        found = "it sent nothing"
    child.join()
    if isinstance(found, str):
        raise RuntimeError(f"a case failed in its process (exit status {child.exitcode}): {found}")
    return found


def _send(work: Callable[[], dict[str, Any]], to: Connection) -> None:
    try:
        to.send(work())
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}")


def _cost(make: Callable[[], LazyGrammar]) -> dict[str, Any]:
    before, began = peak_kb(), time.process_time()
    said = outcome(make)
    spent = time.process_time() - began
    return {"cpu_s": round(spent, 3), "peak_mb": (peak_kb() - before) // 1024, "outcome": said}


def peak_kb() -> int:
    """Return the most memory that this process has held; in a process just forked, what it begins with."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    asked = common.parser(__doc__, None, 0, "cases").parse_args()
    compile_json_schema(True, BYTES).matcher().fill_mask(np.zeros(BYTES.row_words, np.int32))
    rows: list[dict[str, Any]] = []
    for name, make in list(CASES.items())[: asked.limit or None]:
        row = {"case": name, **measured(make)}
        rows.append(row)
        print(f"{name:28} {row['cpu_s']:8.3f} s  {row['peak_mb']:6} MB  {row['outcome']}", flush=True)
    common.report(asked, {"cases": rows, "most_cpu_s": max(row["cpu_s"] for row in rows)})


if __name__ == "__main__":
    main()
