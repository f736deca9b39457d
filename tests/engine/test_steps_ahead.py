"""The next step's pass is launched before the host's work for this one, and what that work shows wrong is left out.

On CPUs here (`steps_ahead` = "always"), where a pass is computed at once: the order of things is that of a device. That
answers stay the same under every mixture of requests is in `test_traffic`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from sluicegate.engine import EngineSettings, LiveGeneration, LoadedModel
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.construction import make_core
from sluicegate.engine.loop.background_matching import QUICK_S
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.sampling.params import draw_rule
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.plugins import GrammarTooCostly, Job
from tests.engine.conftest import MakeModel
from tests.engine.driving import Result, ScriptedGrammar, ScriptedMatcher, a_job, collect
from tests.engine.tiny_models import EOS

PROMPT = [5, 6, 7, 8, 9]


@dataclass
class Watched:
    """A core that is stepped by hand, and what happened in it, in order."""

    core: EngineCore
    events: list[str] = field(default_factory=list)
    computed: list[list[int]] = field(default_factory=list)
    """The ids of each pass."""
    drawn: list[int] = field(default_factory=list)
    """Rows of each draw."""

    def submit(self, job: Job) -> LiveGeneration:
        generation = LiveGeneration(job, self.core.requests.cancel)
        rule = draw_rule(job.sampling, default_temperature=1.0, vocab_size=self.core.model.vocab_size)
        longest = len(job.prompt.token_ids) + (job.sampling.max_tokens or 0)
        self.core.requests.submit(Submission(generation, rule, job.sampling.seed or 0, longest))
        return generation

    async def step(self) -> None:
        if self.core.has_work:
            self.core.step()
        self.core.requests.outbox.flush()
        await asyncio.sleep(0)

    async def finish(self, *generations: LiveGeneration) -> list[Result]:
        while not all(generation.is_over for generation in generations):
            await self.step()
        return [await collect(generation) for generation in generations]


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


MakeWatched = Callable[..., Watched]


@pytest.fixture
def watched(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeWatched]:
    made: list[Watched] = []

    def make(**options: Any) -> Watched:
        values = {"block_size": 4, "num_blocks": 64, "max_batch_size": 4, "max_batch_tokens": 64, "draft_tokens": 0}
        core = make_core(model, EngineSettings(**{**values, "steps_ahead": "always", **options}), Outbox())
        here = Watched(core)
        made.append(here)
        run, choose = core._runner._run, core._sampler._draws.choose

        def compute(inputs: StepInputs, wanted: Any = None) -> torch.Tensor:
            here.events.append("pass")
            here.computed.append(inputs.ids.tolist())
            return run(inputs, wanted)

        def counted(logits: torch.Tensor, *rest: Any) -> Any:
            here.events.append("draw")
            here.drawn.append(len(logits))
            return choose(logits, *rest)

        monkeypatch.setattr(core._runner, "_run", compute)
        monkeypatch.setattr(core._sampler._draws, "choose", counted)
        return here

    yield make
    for here in made:
        here.core.close()


async def alone(model: LoadedModel, watched: MakeWatched, job: Job) -> list[int]:
    here = watched(steps_ahead="never")
    (found,) = await here.finish(here.submit(job))
    assert here.core.counters.ahead == 0
    return found.tokens[0]


class Noted(ScriptedGrammar):
    """Notes when a token is accepted."""

    def __init__(self, events: list[str], script: list[set[int]], *, forced: bool = False) -> None:
        super().__init__(script, EOS, forced=forced)
        self.events = events

    def matcher(self) -> ScriptedMatcher:
        return _NotedMatcher(self)


class _NotedMatcher(ScriptedMatcher):
    def accept(self, token_id: int) -> None:
        self._of.events.append("accept")  # type: ignore[attr-defined]
        super().accept(token_id)


class _Slow(ScriptedGrammar):
    """Its second token takes longer than a step has time for."""

    def __init__(self, script: list[set[int]]) -> None:
        super().__init__(script, EOS)

    def matcher(self) -> ScriptedMatcher:
        return _SlowMatcher(self)


class _SlowMatcher(ScriptedMatcher):
    _hurries = True

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        self._hurries = cpu_s <= QUICK_S

    def accept(self, token_id: int) -> None:
        if self._hurries and len(self.accepted) == 1:
            raise GrammarTooCostly("this token takes long")
        super().accept(token_id)


async def test_the_next_pass_is_launched_before_the_grammar_accepts(model: LoadedModel, watched: MakeWatched) -> None:
    here = watched()
    grammar = Noted(here.events, [{5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, 14}])
    await here.finish(here.submit(a_job(model, PROMPT, grammar=grammar)))
    assert here.events == [
        "pass", "draw", "pass", "accept",  # the prompt; its first token is drawn, read, and then accepted
        "draw", "pass", "accept", "draw", "pass", "accept", "draw", "pass", "accept",
        "draw", "pass", "accept",
    ]  # fmt: skip
    assert here.core.counters.ahead == here.core.counters.steps - 1


@pytest.mark.parametrize("asked", [{}, {"temperature": 1.1, "seed": 4}, {"temperature": 1.1, "seed": 4, "logprobs": 2}])
async def test_plain_answers_are_the_same_and_every_step_but_the_first_is_ahead(
    asked: dict[str, Any], model: LoadedModel, watched: MakeWatched
) -> None:
    job = a_job(model, PROMPT, max_tokens=30, ignore_eos=True, **asked)
    right = await alone(model, watched, job)
    here = watched()
    found = await here.finish(here.submit(job), here.submit(job))
    assert [one.tokens[0] for one in found] == [right, right]
    assert (here.core.counters.steps, here.core.counters.ahead) == (30, 29)
    assert here.core.scheduler.pool.free_count == 64


async def test_a_row_whose_request_was_cancelled_meanwhile_is_not_drawn(
    model: LoadedModel, watched: MakeWatched
) -> None:
    job = a_job(model, PROMPT, max_tokens=20, ignore_eos=True)
    right = await alone(model, watched, job)
    here = watched()
    going, stays = here.submit(a_job(model, [9, 8, 7], max_tokens=20, ignore_eos=True)), here.submit(job)
    for _ in range(5):
        await here.step()
    assert here.core.is_ahead
    assert len(here.computed[-1]) == 2
    here.core.requests.cancel(going)
    taken = here.submit(a_job(model, [1, 2, 3], max_tokens=20, ignore_eos=True))  # its blocks go to another
    here.drawn.clear()
    await here.step()
    assert here.drawn == [1]
    found = await here.finish(going, stays, taken)
    assert found[0].reasons == ["cancelled"]
    assert found[1].tokens[0] == right


async def test_a_row_that_a_stop_string_ended_is_not_drawn(model: LoadedModel, watched: MakeWatched) -> None:
    job = a_job(model, PROMPT, max_tokens=20, ignore_eos=True)
    right = await alone(model, watched, job)
    text = model.tokenizer.decode(right)
    stopping = a_job(model, PROMPT, max_tokens=20, ignore_eos=True, stop=(text[8:10],))
    here = watched()
    found = await here.finish(here.submit(stopping), here.submit(job))
    assert found[0].reasons == ["stop"]
    assert found[0].text[0] == text[: text.index(text[8:10])]
    assert found[1].tokens[0] == right
    assert here.core.scheduler.pool.free_count == 64
    ended = next(at for at, rows in enumerate(here.drawn) if rows == 1)
    assert len(here.computed[ended]) == 2, "its last pass was launched before it was known to end"


async def test_forced_tokens_are_read_after_the_token_that_was_read_ahead(
    model: LoadedModel, watched: MakeWatched
) -> None:
    """No token is read twice, and nothing is drawn from the logits before a forced token."""
    script = [{5, 6}, {7}, {8}, {9, 10}, {11, 12}]
    job = a_job(model, PROMPT, grammar=ScriptedGrammar(script, EOS, forced=True))
    right = await alone(model, watched, job)
    here = watched()
    (found,) = await here.finish(here.submit(job))
    assert found.tokens[0] == right
    assert right[1:3] == [7, 8]
    assert here.computed == [PROMPT, right[:1], right[1:3], right[3:4], right[4:5]]
    assert here.drawn == [1, 1, 1]


async def test_guesses_that_a_launched_pass_did_not_read_are_left_out(model: LoadedModel, watched: MakeWatched) -> None:
    """What follows the grammar is what prompt lookup guesses; each pass of one token draws one, and none is missed."""
    script = [{5, 7}, {6}, {5}, {6}, {5}, {6}, {5}, {6}]
    job = a_job(model, [5, 6, 5, 6, 5, 6, 5, 6], grammar=ScriptedGrammar(script, EOS))
    right = await alone(model, watched, job)
    here = watched(draft_tokens=3)
    (found,) = await here.finish(here.submit(job))
    assert found.tokens[0] == right
    assert right[1:] == [6, 5, 6, 5, 6, 5, 6]
    assert here.core.counters.ahead > 0


async def test_a_row_whose_grammar_takes_long_is_computed_when_its_token_is_accepted(
    model: LoadedModel, watched: MakeWatched
) -> None:
    """Its token was read ahead, but is no part of the sequence when the next step begins; another goes on meanwhile."""
    script: list[set[int]] = [{5, 6}, {7, 8}, {9, 10}, {11, 12}]
    job, other = a_job(model, PROMPT, grammar=_Slow(script)), a_job(model, [4, 4], max_tokens=30, ignore_eos=True)
    right = await alone(model, watched, a_job(model, PROMPT, grammar=ScriptedGrammar(script, EOS)))
    beside = await alone(model, watched, other)
    here = watched()
    found = await here.finish(here.submit(job), here.submit(other))
    assert [one.tokens[0] for one in found] == [right, beside]
    assert here.core.counters.ahead > 0


async def test_blocks_are_published_only_when_their_tokens_are_the_answers(
    model: LoadedModel, watched: MakeWatched
) -> None:
    """With a block a token, what was read ahead for a cancelled answer is in no prefix cache, and what counts is."""
    here = watched(block_size=1, num_blocks=128)
    generation = here.submit(a_job(model, PROMPT, max_tokens=20, ignore_eos=True))
    for _ in range(6):
        await here.step()
    assert here.core.is_ahead
    here.core.requests.cancel(generation)
    await here.step()
    tokens = (await collect(generation)).tokens[0]
    again = here.submit(a_job(model, [*PROMPT, *tokens, 3], max_tokens=2, ignore_eos=True))
    await here.finish(again)
    assert again.cached_tokens == len(PROMPT) + len(tokens) - 1, "the last token was read ahead, and not known to count"


async def test_a_pass_that_cannot_be_launched_is_computed_by_its_own_step(
    model: LoadedModel, watched: MakeWatched, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(model, PROMPT, max_tokens=10, ignore_eos=True)
    right = await alone(model, watched, job)
    here = watched()

    def full(_: StepInputs) -> torch.Tensor:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(here.core._runner, "compute", full)
    (found,) = await here.finish(here.submit(job))
    assert found.tokens[0] == right
    assert here.core.counters.ahead == 0


async def test_nothing_is_launched_while_a_request_waits_that_has_room(
    model: LoadedModel, watched: MakeWatched
) -> None:
    """One that came after a launch waits for that step alone; one without a place holds nobody up."""
    here = watched(max_batch_size=2)
    first = here.submit(a_job(model, PROMPT, max_tokens=30, ignore_eos=True))
    for _ in range(4):
        await here.step()
    second = here.submit(a_job(model, [4, 4], max_tokens=30, ignore_eos=True))
    third = here.submit(a_job(model, [3, 3], max_tokens=3, ignore_eos=True))
    await here.step()
    assert not here.core.is_ahead
    await here.step()
    assert (second.completion_tokens, third.completion_tokens) == (1, 0)
    assert here.core.is_ahead
    await here.finish(first, second, third)


async def test_where_rows_are_often_given_more_than_they_drew_steps_are_not_ahead(
    model: LoadedModel, watched: MakeWatched
) -> None:
    """Not "always": a grammar that forces every second token switches it off, plain text switches it on again."""
    here = watched()
    here.core._ahead._always = False
    script: list[set[int]] = [{5, 6}, {7}] * 12
    job = a_job(model, PROMPT, max_tokens=40, grammar=ScriptedGrammar(script, EOS, forced=True))
    await here.finish(here.submit(job))
    ahead, steps = here.core.counters.ahead, here.core.counters.steps
    assert ahead < 4 < 10 < steps
    await here.finish(here.submit(a_job(model, PROMPT, max_tokens=40, ignore_eos=True)))
    assert here.core.counters.ahead - ahead > 25
