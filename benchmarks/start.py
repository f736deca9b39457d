"""Measure a start up to the first mask: compiled loops, a vocabulary's tables, common automata, lexeme states.

    python -m benchmarks.start [--data RANKS] [--limit N] [--json]

Three processes one after the other: with nothing on disk, with numba's cache, and with ours as well (see
`grammar.store.snapshot`). Times are CPU seconds of each process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import common

_FORMATS = ("date-time", "email", "uri", "ipv6", "uuid", "hostname", "idn-email")


def measured(ranks: Path, folder: str) -> dict[str, float]:
    """Measure the seconds of each step of a start, in order. Must run in a process of its own."""
    laps: dict[str, float] = {}
    began = time.process_time()

    def lap(name: str) -> None:
        nonlocal began
        laps[name] = round(time.process_time() - began, 3)
        began = time.process_time()

    import numpy as np

    from sluicegate.grammar import Vocabulary, compile_json_schema
    from sluicegate.grammar.lexemes import scalars
    from sluicegate.grammar.store import snapshot
    from sluicegate.grammar.store.folder import Folder
    from sluicegate.grammar.vocabulary import kernels

    lap("imports, numba among them")
    kernels.warm()
    lap("compiled loops")
    vocabulary = Vocabulary.from_tiktoken(ranks)
    lap("reading the vocabulary")
    if folder:
        snapshot.restore(vocabulary, Folder(Path(folder)))
    vocabulary.warm()
    lap("its tables")
    scalars.shared_automata()
    lap("automata that most schemas share")
    row = np.zeros(vocabulary.row_words, np.int32)
    for name in _FORMATS:
        schema = {"type": "array", "items": {"type": "string", "format": name}}
        matcher = compile_json_schema(schema, vocabulary).matcher()
        for text in (b"[", b'"'):
            matcher.fill_mask(row)
            matcher.accept(vocabulary.words.index(text))
        matcher.fill_mask(row)
    lap(f"first masks of {len(_FORMATS)} formats")
    if folder:
        snapshot.keep(vocabulary, Folder(Path(folder)))
    return laps


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "of the three processes")
    parser.add_argument("--process", metavar="FOLDER", help="measure in this process; used by the others")
    given = parser.parse_args()
    if given.process is not None:
        print(json.dumps(measured(given.data, given.process)))
        return
    from benchmarks.masks import load  # not above: the processes measure what they import

    load(given.data)  # says in one line what is wrong with a file that holds no tokenizer
    with tempfile.TemporaryDirectory() as place:
        states = {"nothing on disk": f"{place}/ours", "loops on disk": "", "and vocabulary": f"{place}/ours"}
        asked = list(states.items())[: given.limit or None]
        runs = {name: _process(given.data, ours, f"{place}/numba") for name, ours in asked}
    print(common.machine())
    print(f"{'CPU seconds':40}" + "".join(f"{name:>18}" for name in runs))
    for step in next(iter(runs.values())):
        print(f"{step:40}" + "".join(f"{run[step]:18.2f}" for run in runs.values()))
    print(f"{'together':40}" + "".join(f"{sum(run.values()):18.2f}" for run in runs.values()))
    common.report(given, {"machine": common.machine(), **runs})


def _process(ranks: Path, ours: str, numba: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.start", "--data", str(ranks), "--process", ours]
    environ = {**os.environ, "NUMBA_CACHE_DIR": numba}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"the process that starts with {ranks} ended with {done.returncode}; what it said is above")
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
