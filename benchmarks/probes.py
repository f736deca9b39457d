"""Measure the cost of probes while decoding: CPU time of the engine for the same answers, with and without, and of the
judge.

    python -m benchmarks.probes [--model bundled] [--weights full] [--requests 8] [--tokens 256] [--limit 20] [--json]

One engine whose model has a linear probe on one layer in the middle answers the same prompts in turns, in this process:
without the probe (its product is then left out of the compiled pass, and no answer asks for scores), once more without
it as a control, and with it, read `by_sentence` (as where a judge acts: pieces are joined to the end of a sentence) and
`behind` (as in shadow: text leaves at once, scores follow). Two engines would not do: where their copies of the weights
lie makes a difference of 6 us a token. Each turn is short; their order changes from round to round. A decode step is
the difference of two answers, one `--tokens` longer than the other: so neither the prompt counts nor the end, where a
judged answer has one pass more, without logits. `--tokens` should hold some of the batches in which scores follow.

Reported are the median over rounds of what was added, with a 95 % interval (bootstrap), and the medians' ratio; the
same of `around`, the engine's thread around its forward passes, which tells much smaller differences apart; and
`product`, what the probe's product takes right behind a pass. Where the pass is not compiled (Gemma 3), all four ways
have the product, and `product` alone tells of it. A GGUF file of `benchmarks.gguf_files` is a model of real
size.

The judge is `moderate.probe` behind the gateway's own windows, fed with what the engine delivers by sentence: sentences
of so many tokens of four characters, joined as the engine joins them. Its time is all that the windows take for a
token. In shadow it is what the judge adds to the windows, fed with pieces of a token and scores behind them.
Wall-clock time is left out: other processes stretch it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

import numpy as np
import torch

from benchmarks import common
from benchmarks.judges import Case, Score, built, judged
from benchmarks.shapes import folder_of
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.batching.trial import first_blocks
from sluicegate.engine.construction import load
from sluicegate.engine.cpu.operation_table import Cell, Column, Op
from sluicegate.engine.cpu.threads import ThreadTeam
from sluicegate.engine.probes.probe import ProbeSet, StateProbe, digest_of
from sluicegate.engine.probes.reading import BEHIND, MOST_JOINED
from sluicegate.engine.settings import ModelSettings
from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.plugins import Caller, Job, Message, ModelLoadError, Piece, Prompt, Request, Sampling, TokenScores
from sluicegate.plugins.contract.sentence_ends import SentenceWatch
from sluicegate.safety import JudgeRail, RailPolicy, WindowLimits

SHORT = 4
"""Tokens of the shorter answers."""


def with_probe(model: LoadedModel) -> LoadedModel:
    width, layer = model.module.config.get_text_config(decoder=True).hidden_size, max(1, len(model.layers) // 2)
    weights = {"w": torch.randn(width) / width**0.5, "b": torch.zeros(1)}
    probe = StateProbe("harm", (layer,), weights, digest_of(model.version), {})
    return replace(model, probes=ProbeSet([probe], model.device))


Way = Literal["plain", "control", "by_sentence", "behind"]
WAYS: tuple[Way, ...] = ("plain", "control", "by_sentence", "behind")
PROBED: tuple[Way, ...] = ("by_sentence", "behind")


@dataclass(slots=True)
class Meter:
    """An engine whose forward passes are timed apart, and whose probe can be left out of them."""

    engine: Engine
    around_s: float = 0.0
    """CPU time of the engine's thread in steps, without their forward passes."""

    def watch(self) -> None:
        """Time the steps of the engine's only core from now on."""
        [core] = self.engine._registry.cores
        core.step = self._clocked(core.step, 1)  # type: ignore[method-assign]
        core._runner.run = self._clocked(core._runner.run, -1)  # type: ignore[method-assign]

    def _clocked(self, call: Callable[..., Any], sign: int) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*given)
            finally:
                self.around_s += sign * (time.thread_time() - began)

        return timed

    def switch(self, *, probing: bool) -> None:
        """Have the compiled pass compute the probe's product, or leave it out; another pass always computes it."""
        [core] = self.engine._registry.cores
        decoder = core._runner._decoder
        if decoder is not None:
            table = decoder._team._table
            table[table[:, Column.OP] == Op.PROBE, Column.COUNT] = Cell.TOKENS if probing else Cell.SPANS  # no row

    async def spent(self, model: str, requests: int, tokens: int, way: Way) -> tuple[float, float]:
        """Return the processor seconds of all threads for a batch of answers, and those of the engine's thread around
        its forward passes."""
        sampling = Sampling(max_tokens=tokens, temperature=0.0, ignore_eos=True)
        prompts = [tuple(range(3 + at, 40 + at)) for at in range(requests)]
        asked: dict[str, Any] = {
            "probed": way in PROBED,
            "by_sentence": way == "by_sentence",
            "scores_behind": way == "behind",
        }
        jobs = [Job(f"b-{at}", model, Prompt("", ids), sampling, **asked) for at, ids in enumerate(prompts)]
        self.switch(probing=way in PROBED)
        began, around = time.process_time(), self.around_s
        await asyncio.gather(*[_read(self.engine, job) for job in jobs])
        return time.process_time() - began, self.around_s - around

    @torch.inference_mode()
    def product(self, tokens: int, times: int) -> list[float]:
        """Return what the probe's product takes, in us a token, each time behind a pass over `tokens` tokens, which
        leaves nothing of it in the CPU's caches. Not while the engine works."""
        [core] = self.engine._registry.cores
        runner, decoder = core._runner, core._runner._decoder
        inputs = first_blocks(np.arange(3, 3 + 2 * tokens), tokens, 2 * tokens, runner.pool.block_size)
        if decoder is None or not decoder.is_probing:
            return [1e6 * _by_hooks(runner, inputs) / tokens for _ in range(times)]
        table, team = decoder._team._table, decoder._team
        alone = ThreadTeam(table[table[:, Column.OP] == Op.PROBE].copy(), team._reals, team._state, 1)
        found = []
        for turn in range(times):
            took = dict.fromkeys((True, False) if turn % 2 else (False, True), 0.0)
            for computed in took:
                alone._table[:, Column.COUNT] = Cell.TOKENS if computed else Cell.SPANS  # no row
                runner.compute(inputs)
                began = time.perf_counter()
                alone.run()
                took[computed] = time.perf_counter() - began
            found.append(1e6 * (took[True] - took[False]) / tokens)
        return found


def _by_hooks(runner: ModelRunner, inputs: StepInputs) -> float:
    """Return the seconds that states and scores take behind a pass that is not compiled."""
    runner.compute(inputs)
    watched, tokens = runner._watched, len(inputs.ids)
    assert watched is not None
    states = [room[:tokens].clone() for room in watched.rooms]
    began = time.perf_counter()
    for at, state in enumerate(states):
        watched.note(at, state)
    runner._note_states(inputs, [room[:tokens] for room in watched.rooms])
    return time.perf_counter() - began


async def _read(engine: Engine, job: Job) -> None:
    async for _ in await engine.generate(job):
        pass


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    try:
        model = load(ModelSettings(folder_of(given.model)), weights=given.weights)
    except ModelLoadError as error:
        raise SystemExit(f"{given.model}: {error.message}; name a checkpoint with --data") from None
    settings = EngineSettings(threads=1, draft_tokens=0, max_batch_size=max(8, given.requests), num_blocks=512)
    engine = Engine(settings, [with_probe(model)])
    await engine.start()
    try:
        await _compiled(engine)
        meter = Meter(engine)
        meter.watch()
        await _round(meter, model.name, given.requests, 8, 0)
        turns = range(given.limit)
        found = [await _round(meter, model.name, given.requests, given.tokens, turn) for turn in turns]
        product = meter.product(given.requests, 50 * given.limit)
    finally:
        await engine.close()
    each = given.tokens * given.requests
    whole, around = ([{way: 1e6 * took[way][at] / each for way in WAYS} for took in found] for at in (0, 1))
    return {
        "model": model.name,
        "parameters": model.parameter_count,
        "requests": given.requests,
        "token_us": round(median([one["plain"] for one in whole]), 1),
        "added": {way: _added_to_plain(whole, way) for way in WAYS[1:]},
        "around": {way: _added_to_plain(around, way) for way in WAYS[1:]},
        "product": _added(product, 0.0),
        "judge": await judge_costs(),
        "judge_in_shadow": await shadow_cost(),
        "machine": common.machine(),
    }


async def _compiled(engine: Engine) -> None:
    """Wait until the engine uses compiled kernels."""
    while not engine._registry.cores[0].is_compiled:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.1)


def _added_to_plain(rounds: list[dict[Way, float]], way: Way) -> dict[str, Any]:
    return _added([one[way] - one["plain"] for one in rounds], median([one["plain"] for one in rounds]))


def _added(values: list[float], plain: float) -> dict[str, Any]:
    """Return the median of what rounds added, in us a token, with its interval, and the ratio of tokens' times."""
    chance, middle = random.Random(1), median(values)
    drawn = sorted(median(chance.choices(values, k=len(values))) for _ in range(2000))
    interval = [round(drawn[50], 2), round(drawn[1949], 2)]
    ratio = {"ratio": round(1 + middle / plain, 4)} if plain else {}
    return {"added_us": round(middle, 2), "interval_us": interval, **ratio}


async def _round(meter: Meter, model: str, requests: int, tokens: int, turn: int) -> dict[Way, tuple[float, float]]:
    """Return what each way spent on `tokens` decode steps, and in them around the passes; which is first changes from
    turn to turn."""
    took: dict[Way, tuple[float, float]] = {}
    for at in range(len(WAYS)):
        way = WAYS[(turn + at) % len(WAYS)]
        longer, around_longer = await meter.spent(model, requests, SHORT + tokens, way)
        shorter, around_shorter = await meter.spent(model, requests, SHORT, way)
        took[way] = longer - shorter, around_longer - around_shorter
    return took


async def judge_costs() -> dict[str, float]:
    """Return microseconds of CPU that the judge adds to a token, where sentences are short, and where they are long."""
    return {f"us_a_token_of_{tokens}": round(await _judge_cost(tokens), 2) for tokens in (10, 30, 90)}


async def _judge_cost(tokens: int, sentences: int = 20, times: int = 9) -> float:
    text = (("abc " * tokens)[:-2] + ". ") * sentences
    rail = built("probe", block=0.9)
    took: list[float] = []
    for _ in range(times):
        score = Score()
        await judged(rail, Case("", text, bad=False), score, random.Random(1), _harmless)
        assert score.alarms == [False], "a harmless text was stopped"
        took.append(score.cpu_s)
    return 1e6 * (min(took) - _cut_cost(text)) / (tokens * sentences)


async def shadow_cost(tokens: int = 600, times: int = 25) -> dict[str, Any]:
    """Return what a judge in shadow mode adds to a token on the event loop, in us: medians of rounds by turns."""
    text = (("abc " * 30)[:-2] + ". ") * (tokens // 30)
    rail, found = built("probe", block=0.9), []
    for turn in range(times):
        took = dict.fromkeys((True, False) if turn % 2 else (False, True), 0.0)
        for watched in took:
            took[watched] = await _watched(rail, text, watched=watched)
        found.append(1e6 * (took[True] - took[False]) / tokens)
    return _added(found, 0.0)


async def _watched(rail: JudgeRail, text: str, *, watched: bool) -> float:
    """Return the seconds of CPU that one answer takes in the windows of a gateway."""
    request, caller = Request("benchmark", "none", (Message("user", "Go on."),)), Caller()
    limits = WindowLimits(rail_policies={rail.name: RailPolicy(mode="shadow")})
    moderation, judging = (kind([(rail.name, rail)], request, caller, limits) for kind in (Moderation, Judging))
    assert isinstance(moderation, Moderation)
    assert isinstance(judging, Judging)
    pieces = list(_with_scores_behind(text))
    began = time.process_time()
    for at, piece in enumerate(pieces):
        if watched:
            judging.reads_beside(piece)
        if piece.text or piece.finish_reason is not None:
            moderation.feed(piece)
        if at % 8 == 0:
            await asyncio.sleep(0)
    if watched:
        for verdict in await judging.finish():
            moderation.apply_verdict(verdict)
    return time.process_time() - began


def _with_scores_behind(text: str) -> Iterator[Piece]:
    """Yield pieces of a token, and the scores of `BEHIND` of them in a piece of their own, as the engine does."""
    due: list[tuple[int, int]] = []
    for at in range(0, len(text), 4):
        if len(due) == BEHIND:
            yield Piece(0, probed=TokenScores({"harm": [-4.0] * len(due)}), joined=tuple(due), behind=True)
            due = []
        said = Piece(0, text[at : at + 4], (1,))
        due.append((len(said.text), 1))
        yield said
    scores = TokenScores({"harm": [-4.0] * len(due)})
    yield Piece(0, finish_reason="stop", probed=scores, joined=tuple(due), behind=True)


def _harmless(text: str, _: random.Random) -> Iterator[Piece]:
    watch, held = SentenceWatch(), 0
    for at in range(0, len(text), 4):
        held += 1
        if watch.feed(text[at : at + 4]) or held == MOST_JOINED or at + 4 >= len(text):
            said = text[at + 4 - 4 * held : at + 4]
            parts = tuple((len(said[place : place + 4]), 1) for place in range(0, len(said), 4))
            yield Piece(0, said, (1,) * held, probed=({"harm": -4.0},) * held, joined=parts)
            held = 0
    yield Piece(0, finish_reason="stop")


def _cut_cost(text: str) -> float:
    """Return the seconds that making the pieces takes, which is no judge's."""
    began = time.process_time()
    for _ in _harmless(text, random.Random(1)):
        pass
    return time.process_time() - began


def main() -> None:
    options = common.model_parser(__doc__, "bundled", 20, "rounds")
    options.add_argument("--weights", default="full", choices=("full", "int8", "int4"))
    options.add_argument("--requests", type=int, default=8, help="at once (%(default)s)")
    options.add_argument("--tokens", type=int, default=256)
    given = options.parse_args()
    found = asyncio.run(measure(given))
    print(json.dumps(found, indent=2))
    common.report(given, found)


if __name__ == "__main__":
    main()
