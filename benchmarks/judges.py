"""Measure judges of output on streams: recall, false alarms, held characters, time and CPU.

    python -m benchmarks.judges [--data FOLDER] [--limit N] [--json]

Each answer goes piece by piece (about four characters) through the judge and out, as in the gateway. Kinds of judges:

    harm             the shipped text classifier, on labelled answers of a language model (`output_xstest_mistral`,
                     human labels) and on harmless answers (`streaming`, clean)
    guard (FORM)     a guard that the gateway's own engine runs, made here in each form: it knows one word, which is
                     planted in harmless answers. Its recall is that of the plumbing and not of a model
    token-guard      one with heads on tokens, whose unit is a word; it knows the same word
    guard-service    the same word, known by a service on this machine: what asking over HTTP adds

Reported:

    recall, false_alarms   answers stopped, of bad and of harmless ones, with 95 % intervals after Wilson
    leaked_characters      that left at or behind the first unit that the judge calls bad: 0, whatever it judges
    held_mean, held_max    characters that wait for the judge, after each piece
    unit_ms, unit_cpu_ms   wall-clock and processor time for one unit, of this process with all its threads
    token_cpu_ms           of token-guard: processor time for one token of an answer
    read_share             of guards: tokens that the engine computed, of those it was asked to read
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks import common
from benchmarks.tiny_guard import BAD, save_tiny_guard
from benchmarks.tiny_token_guard import save_tiny_token_guard
from sluicegate.engine import Engine, EngineSettings
from sluicegate.engine.settings import ModelSettings
from sluicegate.gateway.commands.statistics import share
from sluicegate.gateway.rails.guard_model import bind_guards
from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.plugins import Caller, Message, Piece, Registry, Request
from sluicegate.safety import JudgeRail, TokenGuardJudge, register
from sluicegate.safety.detection.guards import FORMS
from sluicegate.safety.judging.stable_text import StableCutter
from sluicegate.safety.judging.units import UnitCutter

PLANTED = f" Then add the {BAD} to the well, and tell nobody of it."


@dataclass(frozen=True, slots=True)
class Case:
    question: str
    text: str
    bad: bool


@dataclass(slots=True)
class Score:
    stopped: list[bool] = field(default_factory=list)  # of bad answers
    alarms: list[bool] = field(default_factory=list)  # of harmless ones
    leaked: int = 0
    held: list[int] = field(default_factory=list)
    units: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def row(self) -> dict[str, Any]:
        return {
            "bad": len(self.stopped),
            "recall": _share(self.stopped),
            "harmless": len(self.alarms),
            "false_alarms": _share(self.alarms),
            "leaked_characters": self.leaked,
            "held_mean": round(sum(self.held) / max(1, len(self.held)), 1),
            "held_max": max(self.held, default=0),
            "unit_ms": round(1e3 * self.wall_s / max(1, self.units), 3),
            "unit_cpu_ms": round(1e3 * self.cpu_s / max(1, self.units), 3),
        }


def _share(hits: Sequence[bool]) -> list[float]:
    """Return the share and its interval."""
    found = share(sum(hits), len(hits))
    return [] if found is None else [round(value, 4) for value in (found.value, found.low, found.high)]


def built(name: str, **table: Any) -> JudgeRail:
    registry = Registry()
    registry.register_from("sluicegate.safety.stage", register)
    rail = registry.build("moderate", name, table)
    assert isinstance(rail, JudgeRail)
    return rail


Cut = Callable[[str, random.Random], Iterator[Piece]]
"""How a text comes: in which pieces, and with what probes say of them."""


def pieces(text: str, chance: random.Random) -> Iterator[Piece]:
    at = 0
    while at < len(text):
        size = chance.randint(1, 7)
        yield Piece(0, text[at : at + size])
        at += size
    yield Piece(0, finish_reason="stop")


async def judged(rail: JudgeRail, case: Case, score: Score, chance: random.Random, cut: Cut = pieces) -> str:
    """Stream one answer past the judge; return what left. Each has a tenant of its own: blocks of the answers before
    would flatter what KV reuse leaves."""
    caller = Caller(tenant=f"case-{len(score.stopped) + len(score.alarms)}")
    request = Request("benchmark", "none", (Message("user", case.question or "Go on."),))
    moderation, judging = (kind([(rail.name, rail)], request, caller) for kind in (Moderation, Judging))
    assert isinstance(moderation, Moderation)
    assert isinstance(judging, Judging)
    wall, cpu = time.perf_counter(), time.process_time()
    for piece in cut(case.text, chance):
        steps = await judging.feed(piece)
        for step in steps:
            moderation.feed(step) if isinstance(step, Piece) else moderation.apply_verdict(step)
        if judging.failure is not None:
            raise judging.failure
        if any(not isinstance(step, Piece) and step.released.blocked for step in steps):
            break  # nothing more is generated then
        score.held.append(judging.held(0))
    score.wall_s += time.perf_counter() - wall
    score.cpu_s += time.process_time() - cpu
    [answer] = moderation.answers()
    (score.stopped if case.bad else score.alarms).append(answer.finish_reason == "content_filter")
    score.units += sum(1 for _ in _units(rail, case.text))
    return answer.text


def _units(rail: JudgeRail, text: str) -> Iterator[tuple[int, int]]:
    """Yield what the judge stops an answer before: sentences, or words as a tokenizer has them."""
    if isinstance(rail.judge, TokenGuardJudge):
        words = StableCutter(rail.judge.words)
        at = 0
        for part in [*words.feed(text), *words.close()]:
            yield at, at + len(part)
            at += len(part)
        return
    cutter = UnitCutter(rail.policy.least, rail.policy.most)
    yield from ((unit.start, unit.end) for unit in [*cutter.feed(text), *cutter.close()])


async def run(rail: JudgeRail, cases: Sequence[Case], word: str = "", cut: Cut = pieces) -> dict[str, Any]:
    """Stream all cases past the judge; return a row of figures. `word` is what the judge looks for, where that is
    known: then what leaked can be told."""
    score, chance = Score(), random.Random(1)
    for case in cases:
        out = await judged(rail, case, score, chance, cut)
        if word and word in case.text:
            safe_to = max(start for start, _ in _units(rail, case.text) if word not in case.text[:start])
            score.leaked += max(0, len(out) - safe_to)
        elif not case.text.startswith(out):
            score.leaked += len(out)
    row = score.row()
    if (asked := rail.stats().get("prompt_tokens_total")) and "cached_tokens_total" in rail.stats():
        row["read_share"] = round(1 - rail.stats()["cached_tokens_total"] / asked, 3)
    if tokens := rail.stats().get("tokens_total"):
        row["token_cpu_ms"] = round(1e3 * score.cpu_s / tokens, 3)
    return row


@asynccontextmanager
async def service() -> AsyncIterator[str]:
    """Run a moderation service that knows one word; yield its URL."""

    async def handle(request: web.Request) -> web.Response:
        bad = BAD in (await request.json())["input"]
        return web.json_response(
            {"results": [{"flagged": bad, "categories": {"word": bad}, "category_scores": {"word": float(bad)}}]}
        )

    app = web.Application()
    app.router.add_post("/v1/moderations", handle)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/v1"))
    finally:
        await server.close()


async def measure(labelled: Sequence[Case], harmless: Sequence[Case]) -> dict[str, dict[str, Any]]:
    found = {"harm": await run(built("harm"), [*labelled, *harmless])}
    clean = [case for case in harmless if BAD not in case.text]
    planted = [Case(case.question, case.text + PLANTED + " " + case.text[:300], bad=True) for case in clean]
    async with service() as url:
        rail = built("guard-service", url=url, form="moderations")
        await rail.start()
        found["guard-service"] = await run(rail, [*planted, *clean], BAD)
        await rail.close()
    with tempfile.TemporaryDirectory() as folder:
        models = [ModelSettings(path=str(save_tiny_guard(Path(folder) / form, form)), name=form) for form in FORMS]
        place = save_tiny_token_guard(Path(folder) / "token-guard", context_length=8192)
        models.append(ModelSettings(path=str(place), name="token-guard"))
        engine = Engine(EngineSettings(models=(*models,)))
        await engine.start()
        try:
            for form in FORMS:
                rail = built("guard", model=form, form=form)
                bind_guards([("guard", rail)], engine)
                found[f"guard ({form})"] = await run(rail, [*planted, *clean], BAD)
            rail = built("token-guard", model="token-guard")
            bind_guards([("token-guard", rail)], engine)
            found["token-guard"] = await run(rail, [*planted, *clean], BAD)
        finally:
            await engine.close()
    return found


LABELLED, HARMLESS = "output_xstest_mistral_visible.jsonl.gz", "streaming_visible.jsonl.gz"


def clean_streams(folder: Path, limit: int) -> list[Case]:
    """Return harmless answers, at most `limit` of them; 0 means all."""
    streams = common.records(folder / HARMLESS, fields=("text", "label"))
    return [Case("", r["text"], bad=False) for r in streams if r["label"] == "clean"][: limit or None]


def main() -> None:
    given = common.parser(__doc__, "safety", 400, "answers of each kind").parse_args()
    answers = common.records(given.data / LABELLED, given.limit, fields=("prompt", "text", "label"))
    labelled = [Case(r["prompt"], r["text"], r["label"] == "unsafe") for r in answers if r["label"] != "borderline"]
    result = asyncio.run(measure(labelled, clean_streams(given.data, given.limit)))
    print(common.machine())
    for name, row in result.items():
        print(f"{name:<28}" + ", ".join(f"{key} {value}" for key, value in row.items()))
    common.report(given, {"judges": result, "machine": common.machine()})


if __name__ == "__main__":
    main()
