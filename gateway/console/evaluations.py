"""Read reports of `sluicegate eval` from a folder. Whatever else lies there is told to be none, and never served.

Not covered: reports larger than `MOST_BYTES`, and more than `MOST_REPORTS` of them; who asks is told so.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluicegate.plugins import NotFound, RequestError

MOST_BYTES = 32 * 1024**2
MOST_REPORTS = 200
MOST_CASES = 20_000
Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=1_000_000)]
Name = Annotated[str, Field(max_length=1_000)]


class _ReportModel(BaseModel):
    """A report model that ignores unknown fields: a newer `sluicegate eval` may write more."""

    model_config = ConfigDict(extra="ignore", strict=True)


class ShareFigure(_ReportModel):
    value: Number
    low: Number
    high: Number
    n: int


class VariantFigures(_ReportModel):
    answers: int
    errors: int
    quality: ShareFigure | None = None
    passed: ShareFigure | None = None
    valid_json: ShareFigure | None = None
    valid: ShareFigure | None = None
    refused: ShareFigure | None = None
    false_alarms: ShareFigure | None = None
    missed: ShareFigure | None = None
    leaks: ShareFigure | None = None
    checks: dict[Name, ShareFigure | None] = {}
    tags: dict[Name, ShareFigure | None] = {}
    latency_s: dict[Name, Number | None] = {}
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Number = 0.0


class ComparedVariants(_ReportModel):
    left: Name
    right: Name
    cases: int
    difference: ShareFigure | None = None
    p: Number
    better: int
    worse: int
    worse_cases: list[Name] = []
    preferences: dict[Name, int] | None = None


class JudgeAgreement(_ReportModel):
    n: int
    equal: Number
    kappa: Number | None = None


class CheckResult(_ReportModel):
    check: Name
    score: Number
    passed: bool
    note: Text = ""


class CaseResult(_ReportModel):
    """One answer to one case by one version."""

    case: Name
    variant: Name
    repeat: int = 0
    tags: list[Name] = []
    prompt: Text = ""
    expected: Text | None = None
    answer: Text = ""
    error: Text = ""
    score: Number
    passed: bool
    seconds: Number = 0.0
    checks: list[CheckResult] = []


class SavedReport(_ReportModel):
    suite: Name
    when: Name
    cases: int
    repeat: int = 1
    seed: int = 0
    notes: list[Text] = []
    judge_agreement: JudgeAgreement | None = None
    variants: dict[Name, VariantFigures]
    comparison: ComparedVariants | None = None
    results: Annotated[list[CaseResult], Field(max_length=MOST_CASES)] = []


def listed(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the newest reports without their cases, and how many older ones were left out. Raises `RequestError` for
    a folder that cannot be read."""
    try:
        found = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
        aged = [(entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in found if _is_plain(entry)]
    except OSError as error:
        raise RequestError(
            f"the folder {str(folder)!r} ([telemetry] evaluations) cannot be read: {error.strerror}",
            code="evaluations_unreadable",
        ) from error
    aged.sort(reverse=True)
    return [_summary(folder, name, at_s) for at_s, name in aged[:MOST_REPORTS]], max(0, len(aged) - MOST_REPORTS)


def read_report(folder: Path, name: str) -> SavedReport:
    """Read a saved report. Raises `NotFound` for a name that is no file of the folder, `RequestError` for a file that
    is no report."""
    if not name.endswith(".json") or name != Path(name).name or name.startswith("."):
        raise NotFound(f"there is no report {name[:100]!r} here", code="report_not_found")
    try:
        data = _bytes_of(folder / name)
    except (OSError, ValueError) as error:  # a name with a NUL is no file's
        raise NotFound(f"there is no report {name[:100]!r} here", code="report_not_found") from error
    try:
        return SavedReport.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise RequestError(
            f"{name[:100]!r} is no report of `sluicegate eval --save`: {place}: {first['msg']}", code="no_report"
        ) from error


def _summary(folder: Path, name: str, at_s: float) -> dict[str, Any]:
    line: dict[str, Any] = {"name": name, "written_s": at_s, "error": None}
    try:
        return line | read_report(folder, name).model_dump(exclude={"results", "notes"})
    except (NotFound, RequestError) as error:
        return line | {"error": error.message}


def _bytes_of(path: Path) -> bytes:
    """Read a plain file; a link, a pipe or a device is refused. Raises `OSError`, `RequestError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        kind = os.fstat(file.fileno())
        if not stat.S_ISREG(kind.st_mode):
            raise OSError("not a plain file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise RequestError(f"{path.name[:100]!r} is larger than {MOST_BYTES // 1024**2} MiB", code="no_report")
    return data


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")
