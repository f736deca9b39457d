"""What ends an answer besides the model's own end: stop tokens, patterns that repeat; and what of it is answered."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.engine import LoadedModel
from sluicegate.engine.sequences.repetition import RepetitionDetector, StretchDetector, holds_repetition
from sluicegate.engine.settings import RepetitionSettings
from sluicegate.engine.text.stopping import StopChecker
from sluicegate.plugins import RepetitionDetection, RequestError, Sampling
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, run, serving
from tests.engine.tiny_models import EOS

FREE = {"temperature": 1.2, "ignore_eos": True, "max_tokens": 30, "seed": 5}


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("llama")


async def test_a_stop_token_ends_the_answer_and_its_text_is_left_out_or_not(model: LoadedModel) -> None:
    """Cut where it first comes, streams and all; with the text of the token where that is asked for."""
    async with serving(model) as engine:
        plain = (await run(engine, a_job(model, "the", **FREE)))[0]
        tokens = plain.tokens[0]
        token = tokens[9]
        first = tokens.index(token)
        cut, whole = await run(
            engine,
            a_job(model, "the", stop_token_ids=(token, 7), **FREE),
            a_job(model, "the", stop_token_ids=(token,), include_stop_str_in_output=True, **FREE),
        )
    assert cut.reasons == whole.reasons == ["stop"]
    assert cut.tokens[0] == tokens[:first]
    assert cut.text[0] == model.tokenizer.decode(tokens[:first])
    assert whole.text[0] == model.tokenizer.decode(tokens[: first + 1])
    assert cut.usage.completion_tokens == whole.usage.completion_tokens == first + 1


async def test_before_min_tokens_no_stop_token_is_drawn(model: LoadedModel) -> None:
    async with serving(model) as engine:
        tokens = (await run(engine, a_job(model, "the", **FREE)))[0].tokens[0]
        late = (await run(engine, a_job(model, "the", stop_token_ids=(tokens[0],), min_tokens=8, **FREE)))[0]
    assert tokens[0] not in late.tokens[0][:8]
    assert len(late.tokens[0]) >= 8


async def test_beside_a_grammar_a_stop_token_ends_only_what_is_whole(model: LoadedModel) -> None:
    """Before, it is text like any other if the grammar has it there, and else not drawn."""
    grammar = ScriptedGrammar([{60}, {61}], EOS)
    fields = {"logit_bias": {60: 50.0, 61: 50.0}}

    class Open(ScriptedGrammar):
        """It may stop after two tokens, and goes on for ever."""

        def matcher(self):  # type: ignore[no-untyped-def]
            made = super().matcher()
            made.__class__ = type("M", (made.__class__,), {"is_finished": False, "_allowed": _forever})
            return made

    async with serving(model) as engine:
        ordinary = (await run(engine, a_job(model, "x", grammar=grammar, stop_token_ids=(60,), **fields)))[0]
        ended = await run(
            engine,
            a_job(model, "x", grammar=Open([{60}, {61}], EOS), stop_token_ids=(77,), logit_bias={77: 90.0}),
            a_job(model, "x", grammar=Open([{60}, {61}], EOS), stop_token_ids=(61,), logit_bias={61: 90.0}),
        )
    assert (ordinary.tokens, ordinary.reasons) == ([[60, 61]], ["stop"])
    for result in ended:
        assert (result.tokens, result.reasons) == ([[60, 61]], ["stop"])


def _forever(self) -> set[int]:  # type: ignore[no-untyped-def]
    at = len(self.accepted)
    return self._of.script[at] if at < len(self._of.script) else {61, 62, EOS}


def slow_repeats(tokens: list[int], asked: RepetitionDetection) -> bool:
    """Follow vLLM's definition, word by word."""
    for size in range(max(1, asked.min_pattern_size), asked.max_pattern_size + 1):
        if size * asked.min_count <= len(tokens):
            tail, pattern = tokens[-size * asked.min_count :], tokens[-size:]
            if tail == pattern * asked.min_count:
                return True
    return False


@pytest.mark.parametrize("seed", range(30))
def test_circles_are_found_where_the_definition_finds_them(seed: int) -> None:
    pick = random.Random(seed)
    low, high = pick.randrange(0, 4), pick.randrange(4, 9)
    asked = RepetitionDetection(high, pick.randrange(2, 5), low)
    repetition, tokens, found = RepetitionDetector(asked), [], 0
    for _ in range(900):  # longer than what is kept of the tokens
        tokens.append(pick.choice(tokens[-high:]) if tokens and pick.random() < 0.5 else pick.randrange(3))
        closed = repetition.closed_by(tokens[-1])
        assert closed == slow_repeats(tokens, asked)
        found += closed
    assert found or asked.min_count > 3


@pytest.mark.parametrize("seed", range(12))
def test_stretches_are_found_within_a_look_of_where_the_definition_finds_them(seed: int) -> None:
    """A pattern of the settings' size, often enough and long enough; not before, and at most 32 tokens later."""
    pick = random.Random(seed)
    settings = RepetitionSettings(pick.randrange(1, 9), pick.randrange(2, 7), pick.randrange(32, 90))
    size = pick.randrange(1, 12)
    tokens = [pick.randrange(100) for _ in range(pick.randrange(150))] + [1000 + k for k in range(size)] * 60
    detector = StretchDetector(settings)
    first = next((n for n in range(1, len(tokens) + 1) if slow_stretch(tokens[:n], settings)), None)
    found = next((n for n, token in enumerate(tokens, 1) if detector.closed_by(token)), None)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert max(first, settings.min_tokens) <= found <= max(first, settings.min_tokens) + 32


def slow_stretch(tokens: list[int], settings: RepetitionSettings) -> bool:
    for size in range(1, settings.max_pattern_size + 1):
        wanted = max(settings.min_tokens, size * settings.min_count)
        tail = tokens[-wanted:]
        if len(tail) == wanted and all(tail[k] == tail[k - size] for k in range(size, wanted)):
            return True
    return False


def test_a_prompt_that_repeats_itself_or_a_schema_that_demands_more_lets_an_answer_go_on() -> None:
    settings = RepetitionSettings(8, 4, 64)

    def looped() -> StretchDetector:
        detector = StretchDetector(settings)
        assert any(detector.closed_by(7) for _ in range(64))
        return detector

    varied = random.Random(1).sample(range(900), 200)
    assert not looped().allows(varied, [1, 2])
    assert looped().allows([*varied, *[3, 4] * 12, *varied], [1, 2])
    assert looped().allows(varied, [1] * 65)
    assert holds_repetition(np.array([3, 4] * 12), 8, 20)
    assert not holds_repetition(np.array([3, 4] * 12), 1, 20)
    assert not holds_repetition(np.array([], np.int64), 8, 20)


async def test_an_answer_that_goes_round_in_circles_ends_with_length(model: LoadedModel) -> None:
    """It was cut, not finished, so nobody takes it for whole; only what was generated counts, not the prompt."""
    asked = RepetitionDetection(3, 4)
    one = {"logit_bias": {65: 90.0}, "ignore_eos": True, "max_tokens": 40}
    async with serving(model) as engine:
        ended, late, never = await run(
            engine,
            a_job(model, [65] * 9, repetition_detection=asked, **one),
            a_job(model, [65] * 9, repetition_detection=asked, min_tokens=20, **one),
            a_job(model, [65] * 9, repetition_detection=RepetitionDetection(0, 0), **one),
        )
    assert (ended.tokens, ended.reasons) == ([[65] * 4], ["length"])
    assert (late.tokens, late.reasons) == ([[65] * 20], ["length"])
    assert len(never.tokens[0]) == 40


def test_a_stop_string_can_be_answered_too() -> None:
    watch = StopChecker(["END", "ND!"], included=True)
    assert watch.feed("a b E") == ("a b ", False)
    assert watch.feed("ND! c") == ("END", True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stop_token_ids": (10**6,)}, "stop_token_ids is 1000000"),
        ({"stop_token_ids": (-1,)}, "stop_token_ids is -1"),
        ({"stop_token_ids": (1,) * 129}, "at most 128"),
        ({"stop_token_ids": (1,), "use_beam_search": True}, "beam search"),
        ({"repetition_detection": RepetitionDetection(4, 1)}, "min_count is 1"),
        ({"repetition_detection": RepetitionDetection(4, 2, 5)}, "min_pattern_size is 5"),
        ({"repetition_detection": RepetitionDetection(10**9, 2)}, "max_pattern_size is 1000000000"),
        ({"repetition_detection": RepetitionDetection(4, 2), "use_beam_search": True}, "beam search"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(model: LoadedModel, fields: dict, message: str) -> None:  # type: ignore[type-arg]
    async with serving(model) as engine:
        with pytest.raises(RequestError, match=message):
            await engine.generate(a_job(model, "x", **fields))


def test_the_defaults_ask_for_nothing() -> None:
    assert Sampling().stop_token_ids == ()
    assert Sampling().repetition_detection is None
