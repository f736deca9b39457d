"""A text joined of many parts is judged as its parts one by one, and as a plain reading of them says."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from sluicegate.plugins import JudgingTerms, TokenScores, Verdict
from sluicegate.safety.judging.session import JudgeSession, JudgingPolicy, ScoreLimits
from sluicegate.safety.judging.states import ProbedText, probability

Part = tuple[str, list[dict[str, float]]]


@dataclass
class Plainly:
    """Scores by the definition: a list of all tokens with their places, read again for each question."""

    window: int
    tokens: list[tuple[int, int, dict[str, float], float]] = field(default_factory=list)  # start, end, odds, middle
    worst: list[tuple[int, int, dict[str, float]]] = field(default_factory=list)
    recent: dict[str, deque[float]] = field(default_factory=dict)
    scored: int = 0
    judged: int = 0

    def add(self, text: str, probed: list[dict[str, float]]) -> None:
        start, end, found = self.scored, self.scored + len(text), {}
        for at, odds in enumerate(probed):
            self.tokens.append((start, end, odds, start + (end - start) / len(probed) * (at + 0.5)))
            for label, value in odds.items():
                recent = self.recent.setdefault(label, deque(maxlen=self.window))
                recent.append(value)
                found[label] = max(found.get(label, 0.0), probability(sum(recent) / len(recent)))
        self.worst.append((start, end, found))
        self.scored = end

    def open(self, end: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for start, last, scores in self.worst:
            if start < end and last > self.judged:
                for label, score in scores.items():
                    found[f"{label}/token"] = max(found.get(f"{label}/token", 0.0), score)
        return found

    def judge(self, size: int) -> dict[str, float]:
        end, found = self.judged + size, self.open(self.judged + size)
        covering = [one for one in self.tokens if one[0] < end and one[1] > self.judged]
        inside = [one for one in covering if self.judged <= one[3] < end] or covering
        for label in dict.fromkeys(label for one in inside for label in one[2]):
            values = [one[2][label] for one in inside if label in one[2]]
            found[label] = probability(sum(values) / len(values))
        self.judged = end
        return found


def parts_of(chance: random.Random, count: int) -> list[Part]:
    """Parts of one token for the most part, with two labels, one of which some tokens lack."""
    found = []
    for _ in range(count):
        tokens = chance.choice([1, 1, 1, 1, 2, 3])
        text = "".join(chance.choice("ab c.\n") for _ in range(chance.randint(1, 7)))
        odds = [{"harm": chance.gauss(-3, 4), "hate": chance.gauss(-4, 3)} for _ in range(tokens)]
        if chance.random() < 0.1:
            del odds[0]["hate"]
        found.append((text, odds))
    return found


@pytest.mark.parametrize("seed", range(30))
async def test_scores_are_those_of_the_definition_however_parts_are_joined(seed: int) -> None:
    chance = random.Random(seed)
    parts, at = parts_of(chance, 80), 0
    text, plainly = ProbedText((), chance.choice([1, 2, 16]), {"units_total": 0.0, "tokens_total": 0.0}), Plainly(0)
    plainly.window = text.window
    while at < len(parts):
        some = parts[at : at + chance.randint(1, 20)]
        at += len(some)
        size, odds = sum(len(said) for said, _ in some), [one for _, tokens in some for one in tokens]
        text.add_log_odds(size, odds, [(len(said), len(tokens)) for said, tokens in some])
        for part in some:
            plainly.add(*part)
        while (room := plainly.scored - plainly.judged) > 0 and chance.random() < 0.7:
            end = plainly.judged + chance.randint(1, room)
            assert _known(text.score_open_unit(end).scores) == pytest.approx(plainly.open(end))
            unit = chance.randint(1, room)
            assert _known((await text.judge("x" * unit)).scores) == pytest.approx(plainly.judge(unit))


def _known(scores: object) -> dict[str, float]:
    return dict(scores)  # type: ignore[call-overload,no-any-return]


async def _said(parts: list[Part], joined: bool, chance: random.Random, window: int) -> list[Verdict]:
    """Verdicts that say something new, in order: parts one by one as the stream has them, or joined."""
    text = ProbedText((), window, {"units_total": 0.0, "tokens_total": 0.0})
    policy = JudgingPolicy(ScoreLimits(block=0.6), {}, 12, 40, tokens=ScoreLimits(block=0.9))
    session, found, at = JudgeSession(text, policy, JudgingTerms()), [], 0
    while at < len(parts):
        some = parts[at : at + (chance.randint(2, 20) if joined else 1)]
        at += len(some)
        whole, odds = "".join(said for said, _ in some), [one for _, tokens in some for one in tokens]
        session.add_log_odds(len(whole), odds, [(len(said), len(tokens)) for said, tokens in some])
        if session.hold(whole):
            continue
        for said in [whole] if session.is_calm(len(whole)) else [said for said, _ in some]:
            found.append(await session.feed(said))
            if found[-1].block:
                return found
    return [*found, await session.close()]


@pytest.mark.parametrize("seed", range(60))
async def test_an_answer_stops_at_the_same_place_for_the_same_reason_however_parts_are_joined(seed: int) -> None:
    chance = random.Random(seed)
    parts = [
        (text, [{"harm": one["harm"] + chance.choice([0, 0, 0, 2])} for one in odds])
        for text, odds in parts_of(chance, 60)
    ]
    window = chance.choice([1, 2, 4])
    singly, together = [await _said(parts, joined, chance, window) for joined in (False, True)]
    assert (together[-1].clear_to, together[-1].block) == (singly[-1].clear_to, singly[-1].block)


def test_some_of_these_texts_are_stopped_and_some_are_not() -> None:
    async def ends() -> set[str | None]:
        return {
            (await _said(parts_of(random.Random(seed), 60), True, random.Random(1), 2))[-1].block for seed in range(60)
        }

    assert {None, "harm/token"} <= asyncio.run(ends())


@pytest.mark.parametrize("seed", range(10))
async def test_scores_in_columns_are_judged_as_those_of_each_token(seed: int) -> None:
    """Bit for bit, with any labels of those that there are."""
    chance = random.Random(seed)
    counts, labels = {"units_total": 0.0, "tokens_total": 0.0}, chance.choice([(), ("harm",), ("hate", "harm")])
    texts, found = [ProbedText(labels, chance.choice([1, 2, 16]), dict(counts)) for _ in range(2)], []
    texts[1].window = texts[0].window
    for _ in range(6):
        odds = [{"harm": chance.gauss(-3, 4), "hate": chance.gauss(-4, 3)} for _ in range(chance.randint(1, 60))]
        columns = TokenScores({label: [one[label] for one in odds] for label in ("harm", "hate")})
        unit = "x" * chance.randint(1, 2 * len(odds))
        for text, given in zip(texts, (odds, columns), strict=True):
            text.add_log_odds(2 * len(odds), given, [(2, 1)] * len(odds))
            found.append((await text.judge(unit)).scores)
    assert found[::2] == found[1::2]


@pytest.mark.parametrize("joined", [[(3, 1), (3, 2)], [(2, 1), (3, 1)], [(-1, 1), (7, 1)], [(6, 1)]])
async def test_parts_that_do_not_add_up_count_as_not_scored(joined: list[tuple[int, int]]) -> None:
    text = ProbedText((), 4, {"units_total": 0.0, "tokens_total": 0.0})
    text.add_log_odds(6, [{"harm": -4.0}, {"harm": -4.0}], joined)
    with pytest.raises(ValueError, match="no probe"):
        await text.judge("abcdef")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 3, 7])
async def test_a_number_that_is_none_is_not_lost_among_others(bad: float, at: int) -> None:
    text = ProbedText((), 4, {"units_total": 0.0, "tokens_total": 0.0})
    odds = [{"harm": bad if place == at else -4.0} for place in range(8)]
    text.add_log_odds(8, odds, [(1, 1)] * 8)
    score = text.score_open_unit(8).scores["harm/token"]
    assert math.isnan(score) if math.isnan(bad) else score == pytest.approx(1.0)
