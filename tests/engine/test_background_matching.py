"""Grammars that take long are followed beside the steps: they end alone, and answers are those they would have been."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.engine import LoadedModel
from sluicegate.engine.loop.background_matching import QUICK_S
from sluicegate.plugins import GrammarTooCostly
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, ScriptedMatcher, a_job, run, serving
from tests.engine.tiny_models import EOS


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


class CostlyGrammar(ScriptedGrammar):
    """A script whose every mask, or every token, costs `needs` seconds; `starts` counts the calls that began."""

    def __init__(self, script: list[set[int]], needs: float, *, of: str = "fill_mask") -> None:
        super().__init__(script, EOS)
        self.needs, self.of, self.starts = needs, of, 0

    def matcher(self) -> CostlyMatcher:
        return CostlyMatcher(self)


class CostlyMatcher(ScriptedMatcher):
    """Costs nothing in truth: what is over the bound is refused, and what is not is looked up."""

    def __init__(self, grammar: CostlyGrammar) -> None:
        super().__init__(grammar)
        self._costly, self._cpu_s, self.worked_s = grammar, 1e9, 0.0

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        self._cpu_s, self._pause = cpu_s, pause

    def _spend(self, what: str) -> None:
        if what == self._costly.of:
            self._costly.starts += 1
            self.worked_s += min(self._costly.needs, self._cpu_s)
            if self._costly.needs > self._cpu_s:
                raise GrammarTooCostly("too much")

    def fill_mask(self, row: Any) -> bool:
        self._spend("fill_mask")
        return super().fill_mask(row)

    def accept(self, token_id: int) -> None:
        self._spend("accept")
        super().accept(token_id)


SCRIPT = [{40, 41, 42}, {50, 51}, {60}, {61, 62, 63}, {70, 71}, {80}]


@pytest.mark.parametrize("of", ["fill_mask", "accept"])
@pytest.mark.parametrize("needs", [0.0, QUICK_S / 2, 0.05])
async def test_an_answer_does_not_depend_on_where_its_masks_were_filled(
    model: LoadedModel, of: str, needs: float
) -> None:
    jobs = [{"seed": seed, "temperature": 1.0, "n": 1 + seed % 3, "prompt": "the"} for seed in range(6)]
    async with serving(model, max_batch_size=8, draft_tokens=4) as engine:
        plain = await run(engine, *[_job(model, ScriptedGrammar(SCRIPT, EOS), **job) for job in jobs])
        costly = CostlyGrammar(SCRIPT, needs, of=of)
        beside = await run(engine, *[_job(model, costly, **job) for job in jobs], a_job(model, "x", seed=1))
    assert [(r.tokens, r.text, r.reasons) for r in beside[:-1]] == [(r.tokens, r.text, r.reasons) for r in plain]
    assert [r.usage for r in beside[:-1]] == [r.usage for r in plain]
    assert costly.starts


def _job(model: LoadedModel, grammar: Any, **fields: Any) -> Any:
    fields = dict(fields)
    return a_job(model, fields.pop("prompt"), fields.pop("n"), grammar=grammar, **fields)


async def test_past_its_time_a_request_ends_alone(model: LoadedModel) -> None:
    """The other answer is what it is without; nothing is held afterwards."""
    async with serving(model, grammar_cpu_s=0.2) as engine:
        before = (await run(engine, a_job(model, "the", max_tokens=30)))[0]
        for of in ("fill_mask", "accept"):
            hostile = await engine.generate(a_job(model, "x", grammar=CostlyGrammar(SCRIPT, 0.5, of=of)))
            other = (await run(engine, a_job(model, "the", max_tokens=30)))[0]
            with pytest.raises(GrammarTooCostly):
                async for _ in hostile:
                    pass
            assert other.tokens == before.tokens
        assert engine.stats()["requests_running"] == 0


async def test_who_leaves_meanwhile_leaves_nothing_behind(model: LoadedModel) -> None:
    async with serving(model) as engine:
        generation = await engine.generate(a_job(model, "x", grammar=CostlyGrammar(SCRIPT * 9, 0.05)))
        generation.cancel()
        result = (await run(engine, a_job(model, "the")))[0]
        assert result.tokens[0]
        assert engine.stats()["kv_cache_usage_ratio"] == 0


async def test_a_search_past_its_time_ends_with_the_same_error(model: LoadedModel) -> None:
    """Its matchers move in the middle of a step, so they are not followed elsewhere."""
    async with serving(model) as engine:
        job = a_job(model, "x", 2, grammar=CostlyGrammar(SCRIPT, 0.5), use_beam_search=True)
        began = time.monotonic()
        with pytest.raises(GrammarTooCostly):
            await run(engine, job)
        assert time.monotonic() >= began


async def test_more_slow_sequences_than_places_make_way_for_others(model: LoadedModel) -> None:
    """Sequences that wait for their masks hold no place that another one wants."""
    async with serving(model, max_batch_size=2, num_blocks=64) as engine:
        slow = [a_job(model, "x", grammar=CostlyGrammar(SCRIPT, 0.05), seed=i) for i in range(6)]
        results = await run(engine, *slow, *[a_job(model, "the", max_tokens=4) for _ in range(4)])
    assert all(result.reasons == ["stop"] and len(result.tokens[0]) == len(SCRIPT) for result in results[:6])


@pytest.mark.parametrize(
    "fields", [{}, {"n": 3}, {"n": 2, "use_beam_search": True}, {"close_on_length": True}], ids=str
)
@pytest.mark.parametrize("of", ["fill_mask", "accept"])
async def test_what_each_token_may_take_is_not_what_a_request_may_take(
    model: LoadedModel, of: str, fields: dict[str, Any]
) -> None:
    """Every call stays below its own bound; all of them together do not, and others go on."""
    async with serving(model, grammar_request_s=0.2) as engine:
        grammar = CostlyGrammar(SCRIPT * 9, 0.06, of=of)
        hostile = await engine.generate(_job(model, grammar, **{"prompt": "x", "n": 1, "max_tokens": 50, **fields}))
        other = (await run(engine, a_job(model, "the", max_tokens=8)))[0]
        assert other.tokens[0]
        with pytest.raises(GrammarTooCostly, match=r"request may take 0\.2 s and 0\.01 s for each token"):
            async for _ in hostile:
                pass
        assert grammar.starts < 60
        assert engine.stats()["requests_running"] == 0


async def test_all_choices_of_a_request_share_what_it_may_take(model: LoadedModel) -> None:
    """One choice alone would have ended whole."""
    async with serving(model, grammar_request_s=0.5) as engine:
        alone = (await run(engine, _job(model, CostlyGrammar(SCRIPT, 0.06), prompt="x", n=1)))[0]
        assert alone.reasons == ["stop"]
        with pytest.raises(GrammarTooCostly, match="a request may take"):
            await run(engine, _job(model, CostlyGrammar(SCRIPT, 0.06), prompt="x", n=4))
