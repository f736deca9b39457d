"""Hits and wrong hits of the semantic cache over a stream of questions: `python -m benchmarks.sameness [--data PAIRS]`.

As vCache is measured (arXiv 2502.03771): questions come again in other words and in near misses, the share of hits and
the share of wrong answers among all requests are counted by quarter of the stream. Every pair of PAIRS, or of three
files beside this one, is a topic of two questions; a request is one of them, drawn by rank (Zipf, exponent 1). The
judges are scripts: what a judge that is always right, always agrees, or errs one time in ten would give.

With `--encoder FOLDER` the judge is all-MiniLM-L6-v2 with this package's adapter, which knows the three files.
With `--judge` a real gateway is started instead (`sameness_service.py`), whose cache asks that model: a checkpoint,
which the gateway serves, or `URL#MODEL`. `--error-bound` and `--embedder` are settings of its cache.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from benchmarks import sameness_service
from benchmarks.cache import CALLER, EVERYDAY, PAIRS, UNSEEN, pairs
from benchmarks.common import machine, parser, report
from sluicegate.cache import MemoryStore, TieredCache, question_of
from sluicegate.cache.semantic import HashedSenses, signature
from sluicegate.cache.semantic.judged.encoder_judge import EncoderJudge
from sluicegate.cache.semantic.judged.sameness import Sameness
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.semantic.verified import VerifiedMode
from sluicegate.plugins import Answer, Message, Request, Sampling

Meaning = dict[str, int]


class ScriptedJudge:
    """Extracts the two questions from the prompt and answers by `judges`."""

    def __init__(self, judges: Callable[[str, str], bool]) -> None:
        self._judges = judges

    async def answer(self, prompt: str, tenant: str) -> str:
        first, second = (
            json.loads(line.partition(": ")[2]) for line in prompt.splitlines() if line[:5] in ("First", "Secon")
        )
        return "yes" if self._judges(first, second) else "no"

    async def close(self) -> None:
        """Return at once: no connection is open."""


def meanings(files: Sequence[Path] = (PAIRS, UNSEEN, EVERYDAY)) -> Meaning:
    """Give each question the number of its meaning: questions that are the same have the same number.

    Pairs do not say what questions of two pairs are to each other: where the canonical wording is equal they are one,
    which was right for all 19 such groups when they were read.
    """
    found: Meaning = {}
    for pair in (pair for file in files for pair in pairs(file)):
        one = found.setdefault(pair.one, len(found))
        if not pair.same:
            found.setdefault(pair.other, len(found))
        elif pair.other not in found:
            found[pair.other] = one
        else:
            other = found[pair.other]
            found.update({text: one for text, number in found.items() if number == other})
    one_wording: dict[object, int] = {}
    for text, number in list(found.items()):
        kept = one_wording.setdefault(signature(text) or text, number)
        found.update({other: kept for other, its in found.items() if its == number})
    return found


def stream(known: Meaning, count: int) -> list[str]:
    random, texts = Random(1), sorted(known)
    random.shuffle(texts)
    return random.choices(texts, [1 / (rank + 1) for rank in range(len(texts))], k=count)


async def measured(known: Meaning, asked: list[str], tier: SemanticTier) -> dict[str, object]:
    """Measure the hits by meaning. Exact hits are left out: of each text only the first request counts, and what its
    nearest entry gave."""
    cache = TieredCache(MemoryStore(10**9, 3600), tier)
    quarters = [[0, 0, 0] for _ in range(4)]
    for place, text in enumerate(asked):
        request = Request("r", "m", (Message("user", text),), Sampling(temperature=0))
        question = question_of(request, CALLER, model="m", model_version="1", semantic=True)
        recall = await cache.recall(question)
        by_meaning = recall.found is not None and recall.found.kind == "semantic"
        wrong = recall.found is not None and recall.found.answers[0].text != str(known[text])
        counted = quarters[4 * place // len(asked)]
        counted[0] += 1
        counted[1] += by_meaning
        counted[2] += wrong
        if recall.found is None:
            await cache.remember(question, (Answer(0, str(known[text]), "stop"),), recall)
    await cache.close()
    requests, hits, wrong_ones = (sum(quarter[at] for quarter in quarters) for at in range(3))
    return {
        "hits_by_meaning_by_quarter": [round(quarter[1] / quarter[0], 3) for quarter in quarters if quarter[0]],
        "hits_by_meaning": hits,
        "wrong": wrong_ones,
        "wrong_share_of_requests": round(wrong_ones / requests, 4),
        "judged": int(cache.stats().get("semantic_judge_asked_total", 0)),
    }


def tiers(known: Meaning) -> dict[str, SemanticTier]:
    random = Random(2)

    def right(one: str, other: str) -> bool:
        return known[one] == known[other]

    def errs(one: str, other: str) -> bool:
        return right(one, other) is (random.random() >= 0.1)

    def judged(judges: Callable[[str, str], bool], bound: float = 0.0) -> SemanticTier:
        verified = VerifiedMode(bound, random=Random(3)) if bound else None
        sameness = Sameness(ScriptedJudge(judges), budget_s=60)
        return SemanticTier(HashedSenses(), sameness=sameness, verified=verified)

    return {
        "guard `words`": SemanticTier(HashedSenses()),
        "judge, always right": judged(right),
        "judge, errs 1 in 10": judged(errs),
        "judge, errs 1 in 10, error_bound 0.02": judged(errs, 0.02),
        "judge, always agrees": judged(lambda _, __: True),
        "judge, always agrees, error_bound 0.02": judged(lambda _, __: True, 0.02),
    }


def encoder_tier(folder: str) -> SemanticTier:
    return SemanticTier(HashedSenses(), sameness=Sameness(EncoderJudge(Path(folder)), budget_s=60))


def main() -> None:
    options = parser(__doc__, None, 1500, "requests of the stream", form="a file of pairs, as pairs.txt")
    options.add_argument("--judge", default="", help="a checkpoint, `bundled` or URL#MODEL, asked by a real gateway")
    options.add_argument("--error-bound", type=float, default=0.0, help="of the gateway's cache; 0: none (%(default)s)")
    options.add_argument("--embedder", default="", help="of the gateway's cache (the embedded default)")
    options.add_argument("--encoder", default="", help="a folder of all-MiniLM-L6-v2, which judges beside the scripts")
    arguments = options.parse_args()
    known = meanings([arguments.data]) if arguments.data else meanings()
    asked = stream(known, arguments.limit)
    if arguments.judge:
        bound, embedder = arguments.error_bound, arguments.embedder
        service = sameness_service.measured(known, asked, arguments.judge, embedder=embedder, bound=bound)
        found = {arguments.judge: asyncio.run(service)}
    else:
        made = tiers(known)
        if arguments.encoder:
            made["encoder"] = encoder_tier(arguments.encoder)
        found = {name: asyncio.run(measured(known, asked, tier)) for name, tier in made.items()}
    result = {"machine": machine(), "requests": len(asked), "texts": len(set(asked)), **found}
    print(json.dumps(result, indent=2))
    report(arguments, result)


if __name__ == "__main__":
    main()
