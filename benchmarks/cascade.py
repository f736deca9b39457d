"""Measure the savings of a cascade: a probe on the answering model's states first, a guard only on its alarm.

    python -m benchmarks.cascade [--data FOLDER] [--model bundled] [--limit N] [--bad-share 0.1] [--json]

The guard is the tiny one of `benchmarks.tiny_guard`, served by the gateway's own engine. It knows one word, which is
planted in every tenth of the harmless answers of `streaming`. The probe is trained on the states that `--model` has of
the first half of the answers, each with the word and without; the second half is measured. Each piece carries what the
probe says of the states of its token, as it would from the pass that writes it. `rings` is the largest score that
98 in 100 of the planted units of the first half reach, as an operator would choose it; of the second half none is seen.

Reported, for the probe alone, the guard alone, and the cascade of both:

    recall, false_alarms   answers stopped, with 95 % intervals after Wilson
    leaked_characters      that left at or behind the planted unit
    asked                  share of the units that the guard was asked about
    guard_tokens           prompt tokens that the guard's engine computed, for one answer
    unit_cpu_ms            processor time for one unit; without the states, which come from a pass that runs anyway

With a guard of ten thousand parameters the time saved means little; tokens and calls are saved with any guard.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.judges import PLANTED, Case, built, clean_streams, run
from benchmarks.tiny_guard import BAD, save_tiny_guard
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.construction import load
from sluicegate.engine.probes.probe import StateProbe, read_probe
from sluicegate.engine.probes.texts import states_of
from sluicegate.engine.settings import ModelSettings
from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.commands.probe.rows import LabelledAnswer
from sluicegate.gateway.commands.probe.training import trained
from sluicegate.gateway.rails.guard_model import bind_guards
from sluicegate.plugins import Piece
from sluicegate.safety import JudgeRail
from sluicegate.safety.judging.units import UnitCutter

FORM = "qwen3_guard"
UNITS = {"unit_chars": 120, "longest_unit": 400}
FOUND = 0.98
LONGEST = 2400
"""Characters of an answer: what the bundled model can read at once."""
NO_PROMPT = [{"role": "user", "content": ""}]
"""Before answers whose question nobody knows, as `sluicegate probe train` reads them."""


class ProbedCut:
    """Cuts a text at the model's tokens and gives each piece the log-odds of its token's state."""

    def __init__(self, model: LoadedModel, probe: StateProbe) -> None:
        self._model, self._probe = model, probe
        self._known: dict[str, list[tuple[str, float]]] = {}

    def tokens(self, text: str) -> list[tuple[str, float]]:
        """Return (characters, log-odds) of each token. They are computed once."""
        if text not in self._known:
            self._known[text] = self._read(text)
        return self._known[text]

    def _read(self, text: str) -> list[tuple[str, float]]:
        tokenizer = self._model.tokenizer
        asked = tokenizer(render_chat(tokenizer, NO_PROMPT), add_special_tokens=False)["input_ids"]
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts = [pair[0] for pair in encoded["offset_mapping"]]
        states = states_of(self._model, [*asked, *encoded["input_ids"]], self._probe.layers)[len(asked) :].flatten(1)
        odds = self._probe.logits(states).tolist()
        ends = [*starts[1:], len(text)]
        return [(text[start:end], value) for start, end, value in zip(starts, ends, odds, strict=True)]

    def __call__(self, text: str, chance: random.Random) -> Iterator[Piece]:
        for part, value in self.tokens(text):
            yield Piece(0, part, (1,), probed=({"harm": value},))
        yield Piece(0, finish_reason="stop")

    def units(self, text: str) -> Iterator[tuple[str, float]]:
        """Yield each unit, with the mean log-odds of its tokens as a score."""
        cutter = UnitCutter(UNITS["unit_chars"], UNITS["longest_unit"])
        parts = self.tokens(text)
        begins = np.cumsum([0, *(len(part) for part, _ in parts)])[:-1]
        odds = np.array([value for _, value in parts])
        for unit in [*cutter.feed(text), *cutter.close()]:
            inside = odds[(begins >= unit.start) & (begins < unit.end)]
            yield text[unit.start : unit.end], 1 / (1 + math.exp(-float(inside.mean()))) if len(inside) else 0.0


def planted(cases: Sequence[Case], share: float) -> list[Case]:
    """Return the answers with the bad sentence in the middle of one in `1 / share` of them. The others stay."""
    every = max(1, round(1 / share))
    return [_with_bad(case) if at % every == 0 else case for at, case in enumerate(cases)]


def _with_bad(case: Case) -> Case:
    at = case.text.find(". ", len(case.text) // 3) + 1 or len(case.text)
    return Case(case.question, case.text[:at] + PLANTED + case.text[at:], bad=True)


def probe_of(path: str, model: LoadedModel, cases: Sequence[Case], folder: Path) -> StateProbe:
    pairs = [(case.text, one) for case in cases for one in (case, _with_bad(case))]
    rows = [LabelledAnswer(one.text, one.bad, "", "streaming", group) for group, one in pairs]
    asked = {"model": path, "dtype": None, "device": "cpu", "weights": "full", "unit_chars": UNITS["unit_chars"]}
    trained(Namespace(**asked, layers="auto", hidden=0, seed=0, name="harm", out=folder), rows)
    return read_probe(folder, name=model.name, version=model.version, module=model.module)


def ringing(cut: ProbedCut, cases: Sequence[Case]) -> float:
    """Return the largest score that a share of `FOUND` of the bad units reach."""
    scores = sorted(score for case in cases for unit, score in cut.units(_with_bad(case).text) if BAD in unit)
    return max(0.001, scores[math.floor((1 - FOUND) * len(scores))])


async def measure(cases: Sequence[Case], bad_share: float, path: str = "bundled") -> dict[str, Any]:
    half = len(cases) // 2
    model = load(ModelSettings(path))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        learned = cases[:half]
        cut = ProbedCut(model, probe_of(path, model, learned, folder / "probe"))
        rings = ringing(cut, learned)
        guard = {"model": FORM, "form": FORM}
        rails = {
            "probe": built("probe", block=rings, token_block=2.0, **UNITS),
            "guard": built("guard", **guard, **UNITS),
            "cascade": built("cascade", rings=rings, guard=guard, **UNITS),
        }
        models = (ModelSettings(path=str(save_tiny_guard(folder / FORM, FORM)), name=FORM),)
        rows = await _rows(rails, planted(cases[half:], bad_share), cut, models)
    before, after = rows["guard"]["guard_tokens"], rows["cascade"]["guard_tokens"]
    saved = {"guard_tokens": round(1 - after / before, 4), "questions": round(1 - rows["cascade"]["asked"], 4)}
    return {"model": model.name, "rings": round(rings, 4), "answers": len(cases) - half, "judges": rows, "saved": saved}


async def _rows(
    rails: Mapping[str, JudgeRail], cases: Sequence[Case], cut: ProbedCut, models: Sequence[ModelSettings]
) -> dict[str, dict[str, Any]]:
    for case in cases:
        cut.tokens(case.text)  # before anything is timed
    return {name: await _row(name, rail, cases, cut, models) for name, rail in rails.items()}


async def _row(
    name: str, rail: JudgeRail, cases: Sequence[Case], cut: ProbedCut, models: Sequence[ModelSettings]
) -> dict[str, Any]:
    """Measure one judge on an engine of its own: blocks that another judge's questions left would flatter it."""
    engine = Engine(EngineSettings(models=tuple(models)))
    await engine.start()
    try:
        bind_guards([(name, rail)], engine)
        row = await run(rail, cases, BAD, cut)
    finally:
        await engine.close()
    said = rail.stats()
    tokens = said.get("prompt_tokens_total", 0.0) - said.get("cached_tokens_total", 0.0)
    asked = said["asked_total"] / said["units_total"] if "asked_total" in said else float(name == "guard")
    return {**row, "asked": round(asked, 4), "guard_tokens": round(tokens / len(cases), 1)}


def main() -> None:
    options = common.parser(__doc__, "safety", 0, "harmless answers")
    options.add_argument("--model", default="bundled", help="whose states the probe reads: a checkpoint (%(default)s)")
    options.add_argument("--bad-share", type=float, default=0.1, help="of the answers that are measured")
    given = options.parse_args()
    streams = clean_streams(given.data, given.limit)
    clean = [Case(case.question, case.text[:LONGEST], case.bad) for case in streams if BAD not in case.text]
    result = asyncio.run(measure(clean, given.bad_share, given.model))
    print(common.machine())
    for name, row in result["judges"].items():
        print(f"{name:<10}" + ", ".join(f"{key} {value}" for key, value in row.items()))
    saved = result["saved"]
    print(f"saved: {saved['guard_tokens']:.1%} of the guard's tokens, {saved['questions']:.1%} of the questions to it")
    common.report(given, {**result, "machine": common.machine()})


if __name__ == "__main__":
    main()
