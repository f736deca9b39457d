"""Draw what the search for slow calls tries: grammars of all notations, made at random or of real ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import changed_grammars, common, random_grammars, random_schemas
from benchmarks.grammar_samples import SAMPLES
from benchmarks.timed_calls import Drawn

_REAL = 0.5
"""Share of what is made of real grammars and schemas, where there are some."""
KINDS = {
    "all": ("lark", "lark", "gbnf", "gbnf", "schema", "any order", "tags"),
    "schema": ("schema", "any order"),
    "rules": ("lark", "gbnf", "tags"),
}


class Sources:
    """What grammars are made of: `schemas`, real ones, each with texts, and `grammars` beside the samples."""

    def __init__(self, schemas: Sequence[tuple[Any, tuple[str, ...]]] = (), grammars: Sequence[str] = ()) -> None:
        known = {sample.grammar: sample.texts for sample in SAMPLES} | dict.fromkeys(grammars, ())
        self._rules = {
            kind: [(text, known[text]) for text in known if changed_grammars.is_gbnf(text) == (kind == "gbnf")]
            for kind in ("lark", "gbnf")
        }
        self._schemas = schemas
        self._tags = random_grammars.Tags(
            lambda pick: self._schema(pick)[0],
            lambda pick: self._text(pick, "lark")[0],
            lambda pick: self._text(pick, "gbnf")[0],
        )

    def drawn(self, pick: random.Random, kinds: tuple[str, ...]) -> Drawn:
        kind = pick.choice(kinds)
        if kind == "tags":
            return Drawn(kind, json.dumps(self._tags(pick)))
        if kind in self._rules:
            return Drawn(kind, *self._text(pick, kind))
        schema, lead = self._schema(pick)
        return Drawn(kind, json.dumps(schema), lead)

    def _schema(self, pick: random.Random) -> tuple[Any, str]:
        if not self._schemas or pick.random() > _REAL:
            return random_schemas.schema(pick), ""
        schema, texts = pick.choice(self._schemas)
        others = [pick.choice(self._schemas)[0] for _ in range(5)]
        return changed_grammars.schema(pick, schema, others), pick.choice(texts or ("",))

    def _text(self, pick: random.Random, kind: str) -> tuple[str, str]:
        if pick.random() > _REAL:
            return (random_grammars.gbnf if kind == "gbnf" else random_grammars.lark)(pick), ""
        text, texts = pick.choice(self._rules[kind])
        return changed_grammars.grammar(pick, text), pick.choice(texts or ("",))


def real_schemas(path: Path | None) -> list[tuple[Any, tuple[str, ...]]]:
    """Return the schemas of lines of JSON, each with its valid instances as texts."""
    if path is None:
        return []
    return [
        (line["schema"], tuple(json.dumps(test["data"]) for test in line.get("tests", ()) if test.get("valid")))
        for line in common.records(path, fields=("schema",))
    ]


def real_grammars(folder: Path | None) -> list[str]:
    return [] if folder is None else [path.read_text("utf-8") for path in sorted(folder.iterdir()) if path.is_file()]
