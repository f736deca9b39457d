"""Measure what a guard costs for each token of answers of 200 to 1,600 tokens: it must not grow with the answer.

    python -m benchmarks.guard_lengths [--limit N] [--json]

The guards are those of `benchmarks.tiny_guard` (one a form) and `benchmarks.tiny_token_guard`, saved as checkpoints,
loaded and served by the gateway's own engine. Answers are random words in sentences, streamed in pieces of 1 to 7
characters past the rail and the windows; each has a tenant of its own, so that no blocks of another answer are found.

Reported by guard and length: `token_us`, the least CPU of all threads in `--limit` rounds, for a token of the answer;
`computed`, tokens that the guard's engine computed for each of them, its instructions and last lines included.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.judges import Case, Score, built, judged
from benchmarks.tiny_guard import save_tiny_guard
from benchmarks.tiny_token_guard import save_tiny_token_guard
from sluicegate.engine import Engine, EngineSettings
from sluicegate.engine.settings import ModelSettings
from sluicegate.gateway.rails.guard_model import bind_guards
from sluicegate.safety.detection.guards import FORMS

LENGTHS = (200, 400, 800, 1600)
WORDS = ("river", "runs", "slowly", "mill", "nobody", "there", "asks", "why", "bread", "costs", "more", "cake", "june")
TOKEN_GUARD = "token-guard"
CONTEXT = 8192


def answer(tokenizer: Any, tokens: int, chance: random.Random) -> tuple[str, int]:
    """Return sentences of at least `tokens` tokens, and how many they are."""
    text, size = "", 0
    while size < tokens:
        text += " ".join(chance.choice(WORDS) for _ in range(14)).capitalize() + ". "
        size = len(tokenizer(text)["input_ids"])
    return text, size


async def measure(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths: dict[str, Path] = {form: save_tiny_guard(folder / form, form, context_length=CONTEXT) for form in FORMS}
        paths[TOKEN_GUARD] = save_tiny_token_guard(folder / TOKEN_GUARD, context_length=CONTEXT)
        engine = Engine(
            EngineSettings(models=tuple(ModelSettings(str(path), name=kind) for kind, path in paths.items()))
        )
        await engine.start()
        try:
            return {kind: await _of_guard(engine, kind, rounds) for kind in paths}
        finally:
            await engine.close()


async def _of_guard(engine: Engine, kind: str, rounds: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for turn in range(rounds + 1):  # the first warms up
        for tokens in LENGTHS:
            spent, computed = await _spent(engine, kind, tokens, random.Random(f"{kind}-{tokens}-{turn}"))
            if turn:
                least = min(spent, found.get(str(tokens), {}).get("token_us", spent))
                found[str(tokens)] = {"token_us": round(least, 1), "computed": round(computed, 2)}
    return found


async def _spent(engine: Engine, kind: str, tokens: int, chance: random.Random) -> tuple[float, float]:
    """Return microseconds of CPU, and tokens computed, for each token of one answer."""
    if kind == TOKEN_GUARD:
        rail = built(TOKEN_GUARD, model=kind)
    else:
        rail = built("guard", model=kind, form=kind)
    bind_guards([(rail.name, rail)], engine)
    text, size = answer(engine.models[kind].tokenizer, tokens, chance)
    began = time.process_time()
    left = await judged(rail, Case("Go on.", text, bad=False), Score(), chance)
    took = time.process_time() - began
    assert left == text, "a harmless answer was stopped"
    said = rail.stats()
    computed = (
        said.get("tokens_total", 0.0) + said.get("prompt_tokens_total", 0.0) - said.get("cached_tokens_total", 0.0)
    )
    return 1e6 * took / size, computed / size


def main() -> None:
    given = common.parser(__doc__, None, 3, "rounds", endless=True).parse_args()
    found = asyncio.run(measure(given.limit))
    print(common.machine())
    for kind, row in found.items():
        each = ", ".join(f"{n} tokens {one['token_us']} us ({one['computed']} computed)" for n, one in row.items())
        print(f"{kind:<18}{each}")
    common.report(given, {"guards": found, "machine": common.machine()})


if __name__ == "__main__":
    main()
