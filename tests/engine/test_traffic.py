"""Random traffic through a whole core on a tiny pool: every request ends, nobody's answer changes, no block leaks.

What `test_scheduler` shows with a model that is a memory, here with a real one: several choices, beams, grammars,
adapters, cancellations, deadlines, guesses, and blocks that are spilled and come back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.engine import EngineSettings, LiveGeneration, LoadedModel
from sluicegate.engine.construction import make_core
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.memory.offload import OffloadStore
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.sampling.params import draw_rule
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.plugins import DeadlineExceeded, Job
from tests.engine.conftest import MakeModel
from tests.engine.driving import Result, ScriptedGrammar, a_job, collect
from tests.engine.lora import TARGETS, write_adapter
from tests.engine.tiny_models import EOS

SIZE, BUDGET, BLOCK, BLOCKS = 4, 14, 4, 16
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "drawn": {"temperature": 1.2, "seed": 3},
    "several": {"temperature": 0.9, "seed": 5, "n": 3},
    "beams": {"use_beam_search": True, "best_of": 3, "n": 2},
    "groups": {"use_beam_search": True, "best_of": 4, "n": 2, "beam_groups": 2, "diversity_penalty": 0.5},
    "grammar": {"grammar": ScriptedGrammar([{5}, {6, 7, 8}, {9}, {10}, {11, 12}], EOS, forced=True)},
    "unforced": {"grammar": ScriptedGrammar([{5, 6}, {6, 7, 8}, {9, 1}, {10, 4}, {11, 12}], EOS), "temperature": 0.8},
    "stopped": {"temperature": 1.5, "seed": 2, "stop": ("a", "e"), "stop_token_ids": (9, 40, 41, 42), "min_tokens": 2},
    "penalised": {"temperature": 1.1, "seed": 8, "frequency_penalty": 0.5, "repetition_penalty": 1.3, "logprobs": 1},
}

DRAWN = {"drawn", "several"}


@dataclass(frozen=True)
class Arrival:
    """One request. `leaves`: after so many steps it is cancelled; `late`: its deadline is over when it comes."""

    step: int
    kind: str
    prompt: int
    length: int
    tokens: int
    tenant: str
    priority: int
    adapted: bool
    leaves: int | None
    late: bool

    @property
    def question(self) -> tuple[Any, ...]:
        """Return what its answer depends on, and nothing else."""
        return self.kind, self.prompt, self.length, self.tokens, self.adapted

    def job(self, model: LoadedModel) -> Job:
        ids = [(7 * self.prompt + at // 7 * (self.prompt + 1)) % 250 for at in range(self.length)]
        fields = {"max_tokens": self.tokens, "tenant": self.tenant, "priority": self.priority, **KINDS[self.kind]}
        return a_job(model, ids, **fields)


arrivals = st.lists(
    st.builds(
        Arrival,
        step=st.integers(0, 30),
        kind=st.sampled_from(sorted(KINDS)),
        prompt=st.integers(0, 2),
        length=st.sampled_from([1, 9, 16, 27]),
        tokens=st.sampled_from([1, 6, 11]),
        tenant=st.sampled_from("ab"),
        priority=st.sampled_from([0, 0, 10]),
        adapted=st.booleans(),
        leaves=st.none() | st.integers(0, 9),
        late=st.sampled_from([False] * 7 + [True]),
    ),
    min_size=1,
    max_size=9,
)


@dataclass
class SteppedCore:
    """A core without a thread: it steps when it is told to."""

    model: LoadedModel
    adapter: Adapter
    options: dict[str, Any]
    outbox: Outbox = field(default_factory=Outbox)

    def __post_init__(self) -> None:
        calm = {
            "steps_ahead": "never",
            "max_batch_size": SIZE,
            "max_batch_tokens": BUDGET,
            "block_size": BLOCK,
            "num_blocks": BLOCKS,
        }
        self.core: EngineCore = make_core(self.model, EngineSettings(**{**calm, **self.options}), self.outbox)

    def submit(self, arrival: Arrival) -> LiveGeneration:
        job = arrival.job(self.model)
        generation = LiveGeneration(job, self.core.requests.cancel)
        rule = draw_rule(job.sampling, default_temperature=1.0, vocab_size=self.model.vocab_size)
        longest = min(BLOCK * BLOCKS, arrival.length + arrival.tokens)
        deadline = time.monotonic() - 1 if arrival.late else None
        adapter = self.adapter if arrival.adapted else None
        self.core.requests.submit(Submission(generation, rule, job.sampling.seed or 0, longest, deadline, adapter))
        return generation

    async def step(self) -> None:
        if self.core.has_work:
            self.core.step()
        self.outbox.flush()
        await asyncio.sleep(0)

    async def finish(self, generation: LiveGeneration) -> Result:
        while not generation.is_over:
            await self.step()
        return await collect(generation)


class Answers:
    """What each question is answered alone, with room for everything; asked once."""

    def __init__(self, make_stepped: Callable[..., SteppedCore]) -> None:
        self._make = make_stepped
        self._known: dict[tuple[Any, ...], list[list[int]]] = {}

    async def of(self, arrival: Arrival) -> list[list[int]]:
        if arrival.question not in self._known:
            calm = self._make(num_blocks=80, max_batch_size=8, max_batch_tokens=64, draft_tokens=0)
            alone = replace(arrival, leaves=None, late=False)
            self._known[arrival.question] = (await calm.finish(calm.submit(alone))).tokens
        return self._known[arrival.question]


@pytest.fixture(scope="module", params=["llama", "deepseek_v3"])
def make_stepped(
    request: Any, tiny: MakeModel, tiny_folder: Callable[..., Path], tmp_path_factory: Any
) -> Callable[..., SteppedCore]:
    """Make cores of a model with keys and values of its heads, and of one that keeps latents."""
    family = request.param
    folder = write_adapter(tmp_path_factory.mktemp("a") / "a", tiny_folder(family), TARGETS[family])
    adapter = load_lora(tiny(family), str(folder), "adapted")
    return lambda **options: SteppedCore(tiny(family), adapter, options)


@pytest.fixture(scope="module")
def answers(make_stepped: Callable[..., SteppedCore]) -> Answers:
    return Answers(make_stepped)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    coming=arrivals,
    spill_blocks=st.sampled_from([0, 5, 200]),
    guesses=st.sampled_from([0, 4]),
    ahead=st.sampled_from(["always", "never"]),
)
def test_random_traffic_ends_as_each_request_alone(
    coming: list[Arrival],
    spill_blocks: int,
    guesses: int,
    ahead: str,
    make_stepped: Callable[..., SteppedCore],
    answers: Answers,
) -> None:
    asyncio.run(_random_traffic(coming, spill_blocks, guesses, ahead, make_stepped, answers))


async def _random_traffic(
    coming: list[Arrival],
    spill_blocks: int,
    guesses: int,
    ahead: str,
    make_stepped: Callable[..., SteppedCore],
    answers: Answers,
) -> None:
    kept = spill_blocks * BLOCK * make_stepped().model.kv_bytes_per_token
    here = make_stepped(offload_bytes=kept, draft_tokens=guesses, steps_ahead=ahead)
    running: list[tuple[Arrival, LiveGeneration]] = []
    for step in range(1500):
        running += [(arrival, here.submit(arrival)) for arrival in coming if arrival.step == step]
        for arrival, generation in running:
            if arrival.leaves is not None and step == arrival.step + arrival.leaves:
                generation.cancel()
        await here.step()
        if step > 40 and all(generation.is_over for _, generation in running):
            break
    pool, scheduler = here.core.scheduler.pool, here.core.scheduler
    assert all(generation.is_over for _, generation in running), "someone was left waiting"
    assert (scheduler.waiting_count, scheduler.running, here.core.has_work) == (0, [], False)
    assert pool.free_count == BLOCKS
    assert not isinstance(pool.offload, OffloadStore) or pool.offload.kept_bytes <= kept
    for arrival, generation in running:
        await _check(arrival, generation, answers, same_bits=here.core._runner.is_compiled)


async def _check(arrival: Arrival, generation: LiveGeneration, answers: Answers, *, same_bits: bool) -> None:
    """Compare with the answer alone. Not `same_bits`: logits differ in their last bits with how a prompt was cut, and a
    draw at a border may be the next token; it then only has to end."""
    expected = await answers.of(arrival)
    try:
        found = await collect(generation)
    except DeadlineExceeded:
        assert arrival.late
        return
    for tokens, right, reason in zip(found.tokens, expected, found.reasons, strict=True):
        assert reason is not None
        if arrival.kind in DRAWN and not same_bits:
            continue
        if reason == "cancelled":
            assert arrival.leaves is not None
            assert tokens == right[: len(tokens)]
        else:
            assert tokens == right


def test_the_log_says_before_the_loops_are_compiled_that_this_takes_long(
    make_stepped: Callable[..., SteppedCore], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        make_stepped()
    assert "compiled the first time on a machine" in caplog.text


async def test_a_batch_request_is_answered_though_others_never_stop_coming(
    make_stepped: Callable[..., SteppedCore],
) -> None:
    """Interactive requests of every kind keep a queue; the one of low priority among them, with beams, is reached."""
    here = make_stepped(offload_bytes=1 << 20)
    patient = Arrival(0, "beams", 0, 27, 11, "a", 10, False, None, False)
    waiting = here.submit(patient)
    others: list[LiveGeneration] = []
    for step in range(3000):
        if waiting.is_over:
            break
        if here.core.scheduler.waiting_count < 5:
            kind = sorted(KINDS)[step % len(KINDS)]
            others.append(here.submit(Arrival(step, kind, step % 3, 16, 6, "b", 0, step % 2 == 0, None, False)))
        await here.step()
    assert waiting.is_over
    assert (await collect(waiting)).reasons != ["cancelled"] * 2
    for generation in others:
        await here.finish(generation)
    assert here.core.scheduler.pool.free_count == BLOCKS
