"""What every benchmark prints and accepts alike: the machine, `--data`, `--limit` and `--json`."""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sluicegate.grammar import is_compiled

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
"""Folder of the data sets, next to a checkout; `--data` names another one."""


class Parser(argparse.ArgumentParser):
    """Parse a benchmark's options, and end with one line where one of them is wrong."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def add_tokenizer(self) -> None:
        """Add `--tokenizer`, for programs whose `--data` is something else."""
        default, text = DATA / "llama3" / "tokenizer.model", "a tiktoken rank file, or the folder of a tokenizer"
        self.add_argument("--tokenizer", type=_present("--tokenizer"), default=str(default), help=text)


def parser(
    description: str | None,
    data: str | Path | None,
    limit: int,
    counts: str,
    *,
    form: str = "",
    endless: bool | None = None,
    exists: bool = True,
) -> Parser:
    """Make a parser of the options that all benchmarks take.

    `data` is the default file or folder of the data set, in `DATA` or absolute. Where there is none, the program makes
    its cases itself: `--data` is optional if `form` says what a file of one's own holds, and refused if nothing does.
    `counts` says what `--limit` counts ("requests of each kind"), `limit` is its default. 0 means all there are, or the
    default where what is counted has no end (`endless`; also where the program makes its cases itself). `exists`: the
    data must be there before the program begins.
    """
    made = Parser(description)
    if data is None and not form:
        made.add_argument("--data", type=_refused, help="refused: this benchmark makes its cases itself")
    else:
        default = None if data is None else str(DATA / data)
        otherwise = "the program's own cases" if data is None else "%(default)s"
        text = form or "a file or folder of the same form as the default"
        made.add_argument(
            "--data", type=_present("--data") if exists else Path, default=default, help=f"{text} ({otherwise})"
        )
    _add_limit(made, limit, counts, endless=(data is None if endless is None else endless) and limit > 0)
    return made


def model_parser(description: str | None, model: str, limit: int, counts: str) -> Parser:
    """Make the parser of a benchmark whose data is a model: `--data` is another name of `--model`."""
    made = Parser(description)
    several = ", several by commas" if "," in model else ""
    text = f"a shape of `benchmarks.shapes`, a checkpoint or `bundled`{several} ({model or 'one made here'})"
    made.add_argument(
        "--model", "--models", "--data", dest="model", type=_models(bool(several)), default=model, help=text
    )
    _add_limit(made, limit, counts, endless=limit > 0)
    return made


def _add_limit(made: Parser, limit: int, counts: str, endless: bool) -> None:
    zero = f"0: {limit}" if endless else "0: all"
    made.add_argument(
        "--limit", type=_count(limit if endless else 0), default=limit, help=f"how many {counts}; {zero} (%(default)s)"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object as the last line")


def _present(option: str) -> Callable[[str], Path]:
    def present(text: str) -> Path:
        if not Path(text).exists():
            raise argparse.ArgumentTypeError(
                f"no file or folder at {text}; name one of the same form as the default with {option}"
            )
        return Path(text)

    return present


def _refused(text: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{text} is not read: this benchmark makes its cases itself; leave --data out")


def _models(several: bool) -> Callable[[str], str]:
    def models(text: str) -> str:
        from benchmarks.shapes import SHAPES  # loads torch, which not every benchmark needs

        for name in filter(None, text.split(",") if several else [text]):
            if name != "bundled" and name not in SHAPES and not Path(name).exists():
                raise argparse.ArgumentTypeError(
                    f"no model at {name}; --data takes a checkpoint, `bundled` or a shape of {', '.join(SHAPES)}"
                )
        return text

    return models


def _count(zero: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal():
            raise argparse.ArgumentTypeError(f"{text} is no number from 0 up")
        return int(text) or zero

    return count


def report(given: argparse.Namespace, found: Mapping[str, Any]) -> None:
    """Print what was found as one JSON object in one line, if `--json` asks for it. Call it last. A number that is no
    number is null, since JSON has no other way."""
    if given.json:
        print(json.dumps(_in_json(dict(found)), allow_nan=False), flush=True)


def _in_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _in_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(path: Path, limit: int = 0, seed: int = 1, fields: Sequence[str] = ()) -> list[Any]:
    """Read JSON lines, gzipped or not, each an object with `fields`. They are shuffled the same way each time, so that
    a small run is a part of a large one; a `limit` of 0 means all. End with one line if the file has another form."""
    if not path.exists():
        raise SystemExit(f"no data at {path}; name a file of the same form with --data")
    try:
        found = list(_lines(path, fields))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SystemExit(f"{path}: {error}; name a file of JSON lines with --data") from None
    if not found:
        raise SystemExit(f"{path} holds no line; name a file of JSON lines with --data")
    random.Random(seed).shuffle(found)
    return found[: limit or None]


def _lines(path: Path, fields: Sequence[str]) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                found = json.loads(line)
                missing = [name for name in fields if not (isinstance(found, dict) and name in found)]
                if missing:
                    raise ValueError(f"line {number} has no {' and no '.join(map(repr, missing))}")
                yield found


def machine() -> str:
    """Return one line: processor, cores and the load while measuring, and in which form the grammar runs."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    form = "compiled" if is_compiled() else "in Python (`make compiled` compiles it)"
    processor = f"{platform.machine()} {_processor()}, {os.cpu_count()} cores, load {load}"
    return f"{processor}, Python {platform.python_version()}, grammar {form}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
