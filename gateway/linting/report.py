"""Put together what is found about a schema, and print it for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sluicegate
from sluicegate.gateway.linting.measured import MEASURED, WEIGHTS
from sluicegate.gateway.linting.rules import Advice, advise
from sluicegate.gateway.linting.walk import places, properties_of

_SHOWN = 6
"""Most places of one rule that are printed; `--json` has all of them."""


@dataclass(frozen=True, slots=True)
class SchemaCosts:
    """`properties` in all, the deepest nesting, and tokens of all property names with quotes and colon, each once."""

    properties: int
    depth: int
    key_tokens: int


@dataclass(frozen=True, slots=True)
class LintReport:
    advice: Sequence[Advice]
    costs: SchemaCosts
    not_enforced: Sequence[str] = ()
    error: str = ""
    """Why the schema cannot be served; '' = it can."""

    def as_json(self) -> dict[str, Any]:
        advice = [{**asdict(one), "measured": _gain(one.rule)} for one in self.advice]
        return {
            "serves": not self.error,
            "error": self.error or None,
            "not_enforced": list(self.not_enforced),
            **asdict(self.costs),
            "model": f"bundled, version {WEIGHTS}",
            "advice": advice,
        }

    def as_text(self) -> str:
        costs = self.costs
        head = f"{costs.properties} properties, {costs.depth} levels deep; their names cost {costs.key_tokens} tokens"
        first = f"cannot be served: {self.error}" if self.error else "can be served"
        lines = [first, *(f"not enforced: {note}" for note in self.not_enforced), head]
        for rule in dict.fromkeys(one.rule for one in self.advice):
            lines += ["", *_of_rule(rule, [one for one in self.advice if one.rule == rule])]
        last = f"measured with version {WEIGHTS} of the bundled model" if self.advice else "nothing to advise"
        lines += ["", last]
        return "\n".join(lines)


def _gain(rule: str) -> dict[str, float] | None:
    found = MEASURED.get(rule)
    return None if found is None else found._asdict()


def _of_rule(rule: str, found: Sequence[Advice]) -> list[str]:
    gain = MEASURED.get(rule)
    why = "not measured: a matter of cost or of certainty" if gain is None else f"on the bundled model {gain}"
    lines = [f"{rule} ({len(found)}): {why}"]
    lines += [f"  {one.pointer or '(the whole)'}: {one.text}" for one in found[:_SHOWN]]
    return lines if len(found) <= _SHOWN else [*lines, f"  and {len(found) - _SHOWN} more; --json has all"]


def costs_of(schema: Any) -> SchemaCosts:
    visited = places(schema)
    names = [name for place in visited for name in properties_of(place)]
    return SchemaCosts(len(names), max((place.depth for place in visited), default=0), _tokens(names))


def _tokens(names: Sequence[str]) -> int:
    """Return the tokens of the names as the bundled model writes them: `"name":`."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(sluicegate.__file__).parent / "engine" / "bundled" / "tokenizer.json"))
    return sum(len(tokenizer.encode(f"{json.dumps(name)}:", add_special_tokens=False).ids) for name in names)


def lint(schema: Any, *, compiled: bool = True) -> LintReport:
    """Report on a schema. `compiled`: also say whether it can be served, and what is not enforced; that takes some
    seconds of imports."""
    error, notes = _compiled(schema) if compiled else ("", ())
    return LintReport(advise(schema), costs_of(schema), notes, error)


def _compiled(schema: Any) -> tuple[str, Sequence[str]]:
    from sluicegate.grammar import GrammarError, Vocabulary, compile_json_schema

    words = [bytes([byte]) for byte in range(256)]
    try:
        grammar = compile_json_schema(schema, Vocabulary.from_bytes([*words, b""], eos_token_ids=[256]))
    except GrammarError as error:
        return error.message, ()
    return "", grammar.notes
