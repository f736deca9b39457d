"""Measure the cost and the error rate of the response cache: `python -m benchmarks.cache --json`.

- exact hits: CPU of a look-up (key, store, found) in memory, a SQLite file and, with `redis-server` installed, Redis
- many at once: look-ups a second with 50 under way, as redis-benchmark does it
- by meaning: CPU of a search among 100,000 rows of one scope, for three kinds of rows
- memory of an entry and of a row
- precision, recall and false hits on the pairs beside this file, for both guards, and of the default one on
  `pairs_unseen.txt`, whose pairs were written before the rules of constructions, `pairs_everyday.txt` and
  `pairs_manners.txt`, seven sets written one after the other, each measured before the rules were mended with it, and
  of `pairs_wordings.txt` and `pairs_requests.txt`: sets written before the rules and opened when they were done, and
  those they were made with; of `pairs_free.txt`, freely worded, and of `pairs_other_hand.txt` and
  `pairs_third_hand.txt`, written by others while rules were made and opened when they were done; of four more by other
  hands (`pairs_fourth_hand.txt` and so on), written for the judge of sameness
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import socket
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import machine, parser, report
from sluicegate.cache import MemoryStore, RedisStore, SqliteStore, TieredCache, question_of
from sluicegate.cache.entries import IndexRow
from sluicegate.cache.semantic import HashedNgrams, signature
from sluicegate.cache.semantic.fact_guard import Guard
from sluicegate.cache.semantic.index import Partition
from sluicegate.cache.semantic.tier import DECIDED_THRESHOLD
from sluicegate.plugins import Answer, Caller, Message, Request, Sampling

PAIRS = Path(__file__).with_name("pairs.txt")
UNSEEN = PAIRS.with_name("pairs_unseen.txt")
EVERYDAY = PAIRS.with_name("pairs_everyday.txt")
MANNERS = PAIRS.with_name("pairs_manners.txt")
WORDINGS = PAIRS.with_name("pairs_wordings.txt")
REQUESTS = PAIRS.with_name("pairs_requests.txt")
FREE = PAIRS.with_name("pairs_free.txt")
OTHER_HAND = PAIRS.with_name("pairs_other_hand.txt")
THIRD_HAND = PAIRS.with_name("pairs_third_hand.txt")
LATER_HANDS = tuple(PAIRS.with_name(f"pairs_{name}_hand.txt") for name in ("fourth", "fifth", "sixth", "seventh"))
EIGHTH_HAND = PAIRS.with_name("pairs_eighth_hand.txt")
DIM = 384
CALLER = Caller("acme")


@dataclass(frozen=True, slots=True)
class Pair:
    kind: str
    same: bool
    one: str
    other: str


def pairs(path: Path = PAIRS) -> list[Pair]:
    """Read a file of question pairs: `# kind: same` or `# kind: differs`, then lines `one => other`."""
    found, kind, same = [], "", False
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{path}: {error}; name a file of pairs with --data") from None
    for line in lines:
        if line.startswith("# "):
            kind, _, verdict = line[2:].partition(": ")
            same = verdict == "same"
        elif " => " in line:
            one, _, other = line.partition(" => ")
            found.append(Pair(kind, same, one.strip(), other.strip()))
    if not found:
        raise SystemExit(f"{path} holds no line `one => other`; name a file of pairs with --data")
    return found


# --- how often it errs ---------------------------------------------------------------------------------------------


def judged(guard: Guard, threshold: float, path: Path = PAIRS) -> dict[str, Any]:
    """Count the pairs the cache would answer alike at this threshold: correct and wrong hits."""
    embedder = HashedNgrams()
    served = []
    for pair in pairs(path):
        one = signature(pair.one, guard)
        cosine = float(embedder.vector(pair.one) @ embedder.vector(pair.other))
        served.append((pair, one is not None and one == signature(pair.other, guard) and cosine >= threshold))
    right, wrong = (sum(hit for pair, hit in served if pair.same is same) for same in (True, False))
    negatives = sum(not pair.same for pair, _ in served)
    recalls = {}
    for kind in dict.fromkeys(pair.kind for pair, _ in served if pair.same):
        hits = [hit for pair, hit in served if pair.kind == kind]
        recalls[kind] = round(sum(hits) / len(hits), 3)
    return {
        "false_hits": wrong,
        "negatives": negatives,
        "false_hit_share": round(wrong / max(1, negatives), 4),
        "precision": round(right / max(1, right + wrong), 4),
        "recall": recalls,
    }


def errors(path: Path | None) -> dict[str, Any]:
    """Judge the pairs of `path`, by both guards; without it those beside this file."""
    found = {"words, as by default": judged("words", DECIDED_THRESHOLD, path or PAIRS)}
    found["facts, cosine 0.8"] = judged("facts", 0.8, path or PAIRS)
    for other in (
        (UNSEEN, EVERYDAY, MANNERS, WORDINGS, REQUESTS, FREE, OTHER_HAND, THIRD_HAND, *LATER_HANDS, EIGHTH_HAND)
        if path is None
        else ()
    ):
        found[f"words, {other.stem.removeprefix('pairs_')}"] = judged("words", DECIDED_THRESHOLD, other)
    return found


# --- what it costs -------------------------------------------------------------------------------------------------


def exact(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        costs = {
            "memory": asyncio.run(_exact(lambda: MemoryStore(1_000_000_000, 3600), count)),
            "sqlite": asyncio.run(_exact(lambda: SqliteStore(Path(folder) / "a.db", 10**9, 3600, deadline_s=5), count)),
        }
        if shutil.which("redis-server"):
            with _redis(folder) as url:
                costs["redis"] = asyncio.run(_exact(lambda: RedisStore(url, 3600, deadline_s=5), count))
    return costs


async def _exact(make: Callable[[], Any], count: int) -> dict[str, float]:
    """Measure exact hits. CPU is that of this process with all threads; the server's is not in it."""
    cache = TieredCache(make())
    await cache.start()
    requests = [
        _request(f"What is the price of article {number}, and when will it be here?") for number in range(count)
    ]
    for request in requests:
        question = question_of(request, CALLER, model="m", model_version="1")
        await cache.remember(question, (Answer(0, "x" * 400, "stop"),), await cache.recall(question))
    cpu, wall = time.process_time(), time.perf_counter()
    hits = [await _hit(cache, request) for request in requests]
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert all(hits)
    at_once = time.perf_counter()
    await asyncio.gather(*(_worker(cache, requests[start::50]) for start in range(50)))
    at_once = time.perf_counter() - at_once
    await cache.close()
    return {
        "hit_cpu_ms": round(cpu / count * 1e3, 4),
        "hit_wall_ms": round(wall / count * 1e3, 4),
        "hits_per_s_50_at_once": round(count / at_once),
    }


async def _hit(cache: TieredCache, request: Request) -> bool:
    return (await cache.recall(question_of(request, CALLER, model="m", model_version="1"))).found is not None


async def _worker(cache: TieredCache, requests: list[Request]) -> None:
    for request in requests:
        await _hit(cache, request)


def _request(text: str) -> Request:
    messages = (Message("system", "You are a careful assistant of a shop. Be brief."), Message("user", text))
    return Request("r", "m", messages, Sampling(temperature=0))


class _redis:
    """A redis-server of our own."""

    def __init__(self, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        command = ["redis-server", "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def __enter__(self) -> str:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self._port), 0.1).close()
                break
            except OSError:
                time.sleep(0.02)
        return f"redis://127.0.0.1:{self._port}/0"

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def searches(count: int) -> dict[str, Any]:
    """Measure searches in `count` rows of three kinds: as a model's embeddings lie (clusters of 20), all of one cluster
    (the worst case: no bound helps), and clustered with 1,000 different signatures of the guard."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((max(1, count // 20), DIM), dtype=np.float32)
    noise = random.standard_normal((count, DIM), dtype=np.float32)
    clustered = _unit(centres[random.integers(0, len(centres), count)] + 0.5 * noise)
    alike = _unit(centres[0] + 0.3 * noise)
    one = np.zeros(count, np.uint64)
    thousand = random.integers(0, 1000, count).astype(np.uint64)
    return {
        "clustered, one signature": _search(clustered, one, 0.8),
        "all alike, one signature": _search(alike, one, 0.8),
        "clustered, 1000 signatures": _search(clustered, thousand, 0.8),
    }


def _search(rows: Any, facts: Any, floor: float) -> dict[str, float]:
    partition = Partition(DIM, len(rows))
    for place in range(len(rows)):
        partition.add(IndexRow(f"{place:064x}", int(facts[place]), rows[place]))
    random = np.random.default_rng(1)
    places = random.integers(0, len(rows), 60)
    queries = _unit(rows[places] + 0.02 * random.standard_normal((60, DIM), dtype=np.float32))
    costs, found = [], 0
    for place, query in zip(places, queries, strict=True):
        cpu = time.process_time()
        near = partition.nearest(query, int(facts[place]), floor)
        costs.append(time.process_time() - cpu)
        found += near is not None and int(near.digest, 16) == int(place)
    costs.sort()
    return {
        "rows": len(rows),
        "cpu_ms_p50": round(costs[30] * 1e3, 3),
        "cpu_ms_p95": round(costs[57] * 1e3, 3),
        "right": found / 60,
        "bytes_a_row": round(partition.nbytes / len(rows)),
    }


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def prompts() -> dict[str, float]:
    """Measure the CPU milliseconds of what a semantic look-up does before it searches."""
    embedder, text = HashedNgrams(), "Can you tell me how to change the delivery address of my order, please?"
    timed = {}
    for name, call in (("embed_ms", embedder.vector), ("signature_ms", signature)):
        cpu = time.process_time()
        for _ in range(300):
            call(text)
        timed[name] = round((time.process_time() - cpu) / 300 * 1e3, 4)
    return timed


async def _memory(count: int) -> float:
    cache = TieredCache(MemoryStore(10**9, 3600))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        question = question_of(_request(f"question {number}"), CALLER, model="m", model_version="1")
        await cache.remember(question, (Answer(0, f"{number:0400d}", "stop"),), await cache.recall(question))
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return round(used / count)


def main() -> None:
    arguments = parser(
        __doc__, None, 2000, "entries that are looked up", form="a file of pairs, as pairs.txt"
    ).parse_args()
    result = {
        "machine": machine(),
        "exact": exact(arguments.limit),
        "semantic": searches(100_000),
        "prompt": prompts(),
        "bytes_an_entry_of_400_characters_in_memory": asyncio.run(_memory(arguments.limit)),
        "errs": errors(arguments.data),
    }
    print(json.dumps(result, indent=2))
    report(arguments, result)


if __name__ == "__main__":
    main()
