"""Read labelled answers for probes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluicegate.gateway.commands.arguments import numbered_lines
from sluicegate.gateway.commands.redteam import HARMFUL, HARMLESS
from sluicegate.plugins.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """`prompt`: what was asked; "" = nobody knows. `group`: rows that stay on one side of a cut."""

    text: str
    bad: bool
    prompt: str = ""
    source: str = ""
    group: str = ""


def answers_of(path: Path, limit: int = 0) -> Iterator[LabelledAnswer]:
    """Yield the labelled answers of a file. Raises `ConfigurationError` that names the line. Rows with another label
    are left out and counted on stderr."""
    skipped = 0
    for number, line in numbered_lines(path, limit):
        row = _row(path, number, line)
        if row is None:
            skipped += 1
        else:
            yield row
    if skipped:
        print(f"sluicegate probe: {path}: {skipped} rows have another label and are left out", file=sys.stderr)


def _row(path: Path, number: int, line: str) -> LabelledAnswer | None:
    try:
        tree = json.loads(line)
        text, label = tree["text"], str(tree["label"]).lower()
        prompt, source = tree.get("prompt") or "", tree.get("source") or path.name.split(".")[0]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(f"{path}, line {number}: expected an object with `text` and `label`") from error
    if not isinstance(text, str) or not isinstance(prompt, str):
        raise ConfigurationError(f"{path}, line {number}: `text` and `prompt` are strings")
    if label not in (*HARMLESS, *HARMFUL) or not text.strip():
        return None
    return LabelledAnswer(text, label in HARMFUL, prompt, str(source), prompt or text)
