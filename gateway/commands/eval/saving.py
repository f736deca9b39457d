"""Save a report with every answer as one JSON file in a folder, where a gateway's console finds it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.eval.judge import reply_text
from sluicegate.gateway.commands.eval.summary import ScoredCase
from sluicegate.plugins import ConfigurationError

MOST_CHARS = 20_000
"""Most characters of one text in a saved report; the report says that the rest was left out."""


def check_folder(folder: Path) -> None:
    """Make `folder` where it is missing. Raises `ConfigurationError` where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--save {folder}: {error.strerror}; name a folder that can be made") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"--save {folder}: not writable; name another folder")


def save(folder: Path, report: Mapping[str, Any], judged: Mapping[str, Sequence[ScoredCase]]) -> Path:
    """Write the report whole or not at all: under another name first. Returns its path, which no report had before."""
    data = json.dumps({**report, "results": list(results(judged))}, ensure_ascii=False)
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{report['suite']}"[:80]).strip("-") or "suite"
    moment = re.sub(r"[^0-9T]", "", str(report["when"]).partition("+")[0])
    path = next(path for n in range(1, 10_000) if not (path := folder / f"{stem}-{moment}{_nth(n)}.json").exists())
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(data, "utf-8", errors="replace")
    unfinished.replace(path)
    return path


def results(judged: Mapping[str, Sequence[ScoredCase]]) -> Iterator[dict[str, Any]]:
    """Yield one object for each answer, as the console reads them."""
    for variant, found in judged.items():
        for one in found:
            case, reply = one.asked.case, one.asked.reply
            yield {
                "case": case.id,
                "variant": variant,
                "repeat": one.asked.repeat,
                "tags": list(case.tags),
                "prompt": _cut("\n".join(f"{m.get('role')}: {_text(m.get('content'))}" for m in case.messages)),
                "expected": None if case.expected is None else _cut(_text(case.expected)),
                "answer": "" if reply.error else _cut(reply_text(one.asked)),
                "error": _cut(one.error),
                "score": one.score,
                "passed": one.passed,
                "seconds": round(reply.seconds, 6),
                "checks": [dataclasses.asdict(check) for check in one.checks],
            }


def _nth(n: int) -> str:
    return "" if n == 1 else f"-{n}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    left_out = len(text) - MOST_CHARS
    return text if left_out <= 0 else f"{text[:MOST_CHARS]} ... ({left_out} more characters)"
