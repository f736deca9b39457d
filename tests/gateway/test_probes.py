"""Probes judge answers while the model writes them: in any cut, on any channel; nothing leaves unseen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import Engine
from sluicegate.engine.construction import load
from sluicegate.engine.probes.probe import StateProbe, digest_of
from sluicegate.engine.settings import ModelSettings
from sluicegate.gateway.answer.content_stops import ContentStops
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.shape import Shape
from sluicegate.gateway.rails.health import RailHealth, judges
from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.states import check_probes
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import (
    Answer,
    Caller,
    Channel,
    ConfigurationError,
    Constraint,
    Job,
    Piece,
    Registry,
    Sampling,
    StageFailed,
    TokenLogprob,
)
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.plugins.testing import ScriptedModel, make_request
from sluicegate.safety import CascadeJudge, JudgeRail, ProbeAnswerJudge, RailPolicy, WindowLimits, register
from sluicegate.safety.judging.session import Assessment, JudgingPolicy, ScoreLimits

UNITS = {"unit_chars": 20, "longest_unit": 60}
CALM, GRAVE = -6.0, 6.0
FINE = "The river runs slowly past an old mill. "
BAD = "They drink from the well at night. "


def built(name: str, **table: Any) -> JudgeRail:
    registry = Registry()
    registry.register_from("sluicegate.safety.stage", register)
    rail = registry.build("moderate", name, {**UNITS, **table})
    assert isinstance(rail, JudgeRail)
    return rail


def spoken(parts: Sequence[tuple[str, float | None]], size: int, channel: Channel = "content") -> Iterator[Piece]:
    """Yield pieces of `size` characters, one token each, with the log-odds of their part. None means that no probe has
    looked."""
    for text, odds in parts:
        for at in range(0, len(text), size):
            probed = () if odds is None else ({"harm": odds},)
            yield Piece(0, text[at : at + size], (1,), channel=channel, probed=probed)
    yield Piece(0, finish_reason="stop")


async def left(
    rails: Sequence[JudgeRail],
    pieces: Iterator[Piece],
    mode: str = "enforce",
    failure_mode: str = "closed",
    is_json: bool = False,
) -> tuple[Answer, Moderation]:
    """Return what leaves of an answer. Raises `StageFailed`."""
    policy = RailPolicy(mode=mode, failure_mode=failure_mode)  # type: ignore[arg-type]
    limits = WindowLimits(rail_policies={rail.name: policy for rail in rails})
    request = make_request("What of the river?", constraint=Constraint("json_object", None) if is_json else None)
    named = [(rail.name, rail) for rail in rails]
    moderation, judging = Moderation(named, request, Caller(), limits), Judging(named, request, Caller(), limits)
    for piece in pieces:
        for step in await judging.feed(piece):
            moderation.feed(step) if isinstance(step, Piece) else moderation.apply_verdict(step)
        if judging.failure is not None:
            judging.cancel()
            raise judging.failure
    for verdict in await judging.finish():
        moderation.apply_verdict(verdict)
    moderation.judged(judging.seconds(), judging.scores())
    return moderation.answers()[0], moderation


@pytest.mark.parametrize("size", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("token_block", [2.0, 0.9])
async def test_nothing_of_a_bad_sentence_leaves_in_any_cut(size: int, token_block: float) -> None:
    rail = built("probe", block=0.9, token_block=token_block, token_window=1)
    answer, _ = await left([rail], spoken([(FINE, CALM), (BAD, GRAVE), (FINE, CALM)], size))
    assert answer.finish_reason == "content_filter"
    assert answer.text in (FINE.rstrip(), FINE) if size < 20 else FINE.startswith(answer.text)


async def test_a_token_stops_an_answer_before_its_sentence_ends() -> None:
    """And leaves the rest of the sentence unwritten: the judge is not asked about it."""
    rail = built("probe", block=0.9, token_block=0.9, token_window=2)
    seen: list[str] = []

    def pieces() -> Iterator[Piece]:
        for piece in spoken([(FINE, CALM), (BAD[:8], GRAVE), (BAD[8:], GRAVE)], 2):
            seen.append(piece.text)
            yield piece

    answer, moderation = await left([rail], pieces())
    assert answer.finish_reason == "content_filter"
    assert answer.text == FINE.rstrip()
    assert moderation.finished
    [decision] = moderation.decisions()
    assert decision.detail["scores"]["harm/token"] >= 0.9


async def test_a_window_of_tokens_forgives_a_single_one() -> None:
    parts = [(FINE, CALM), (BAD[:4], GRAVE), (BAD[4:], CALM), (FINE, CALM)]
    strict, mild = (built("probe", token_block=0.9, token_window=window) for window in (1, 8))
    assert (await left([strict], spoken(parts, 4)))[0].finish_reason == "content_filter"
    answer, _ = await left([mild], spoken(parts, 4))
    assert (answer.finish_reason, answer.text) == ("stop", "".join(text for text, _ in parts))


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_text_that_no_probe_has_looked_at_does_not_leave(at: int) -> None:
    parts: list[tuple[str, float | None]] = [(FINE, CALM)] * 3
    parts[at] = (FINE, None)
    with pytest.raises(StageFailed, match="nothing that it had not judged"):
        await left([built("probe")], spoken(parts, 3))


async def test_a_number_that_is_none_settles_nothing() -> None:
    with pytest.raises(StageFailed):
        await left([built("probe")], spoken([(FINE, float("nan"))], 3))


async def test_a_label_that_the_model_has_not_settles_nothing() -> None:
    with pytest.raises(StageFailed):
        await left([built("probe", labels=["hate"])], spoken([(FINE, CALM)], 3))


async def test_in_shadow_it_holds_nothing_and_says_what_it_would_have_done() -> None:
    answer, moderation = await left([built("probe")], spoken([(FINE, CALM), (BAD, GRAVE)], 3), mode="shadow")
    assert answer.text == FINE + BAD
    assert [decision.outcome for decision in moderation.decisions()] == ["shadow block"]
    kept, moderation = await left([built("probe")], spoken([(FINE, None)], 3), mode="shadow")
    assert kept.text == FINE
    assert not moderation.failures


async def test_thoughts_are_judged_as_a_text_of_their_own() -> None:
    thoughts, said = spoken([(BAD, GRAVE)], 5, "reasoning"), spoken([(FINE, CALM)], 5)
    pieces = itertools.chain((piece for piece in thoughts if piece.finish_reason is None), said)
    answer, _ = await left([built("probe")], pieces)
    assert (answer.finish_reason, answer.text, answer.reasoning) == ("content_filter", "", "")


# --- pieces that are cut anew on their way ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_marks_of_regions_and_stop_strings_lose_no_scores(seed: int) -> None:
    """Whatever is held at marks and comes later: each text that leaves has scores, and the worst token is among those
    of the texts that are left."""
    chance = random.Random(seed)
    text = "<think>One thinks of < and of </ marks. </think>The answer < is <tool here. STO but not STOP at all"
    regions = Regions(Shape(None, thoughts="asked"))
    stops, at, grave = ContentStops(Sampling(stop=("STOP",))), 0, chance.randrange(20, 60)
    seen: list[Piece] = []
    while at < len(text):
        size = chance.randint(1, 6)
        odds = GRAVE if at <= grave < at + size else CALM
        piece = Piece(0, text[at : at + size], (1,), probed=({"harm": odds},))
        at += size
        ended = replace(piece, finish_reason="stop") if at >= len(text) else piece
        seen += [left for part in regions.feed(ended) for left in stops.feed(part)]
    assert all(piece.probed for piece in seen if piece.text)
    assert max(one["harm"] for piece in seen for one in piece.probed) == GRAVE


# --- cascades --------------------------------------------------------------------------------------------------------


class Counting:
    """A dear judge: bad is what says `well`. It notes what it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def read(self, *_: Any) -> Counting:
        return self

    async def judge(self, unit: str) -> Assessment:
        self.given.append(unit)
        return Assessment({"unsafe": float("well" in unit)})


def a_cascade(second: Any, rings: float = 0.5) -> JudgeRail:
    policy = JudgingPolicy(ScoreLimits(block=0.5), {}, 20, 60)
    return JudgeRail("cascade", CascadeJudge(ProbeAnswerJudge(), rings, second), policy, ["content"], "1", 5.0)


async def test_the_dear_judge_is_asked_only_where_the_cheap_one_rings_and_reads_all_before() -> None:
    second = Counting()
    parts = [(FINE, CALM), (FINE, CALM), (FINE, GRAVE), (FINE, CALM), (BAD, GRAVE), (FINE, CALM)]
    answer, _ = await left([rail := a_cascade(second)], spoken(parts, 4))
    assert answer.finish_reason == "content_filter"
    assert answer.text == (4 * FINE).rstrip()
    assert len(second.given) == 2
    assert "".join(second.given) == (4 * FINE + BAD).rstrip()
    assert dict(rail.stats())["units_total"] == 5
    assert dict(rail.stats())["asked_total"] == 2


async def test_a_ring_alone_stops_nothing_and_states_that_are_missing_do() -> None:
    answer, _ = await left([a_cascade(Counting())], spoken([(FINE, GRAVE)] * 3, 4))
    assert (answer.finish_reason, answer.text) == ("stop", 3 * FINE)
    with pytest.raises(StageFailed):
        await left([a_cascade(Counting())], spoken([(FINE, None)], 4))


def test_a_cascade_asks_one_guard_and_rings_where_a_score_can_be() -> None:
    guard = {"model": "g", "form": "qwen3_guard"}
    assert built("cascade", rings=0.2, guard=guard).reads_states
    assert not built("cascade", first="harm", rings=0.2, guard=guard).reads_states
    service = {"url": "http://127.0.0.1:1/v1", "form": "moderations"}
    for wrong in ({"rings": 0.2}, {"rings": 0.2, "guard": guard, "service": service}, {"rings": 1.5, "guard": guard}):
        with pytest.raises(ConfigurationError):
            built("cascade", **wrong)


# --- a whole gateway -------------------------------------------------------------------------------------------------


def save_probe(folder: Path, bias: float) -> Path:
    """Save a probe of the bundled model that says the same of every token."""
    model = load(ModelSettings())
    width = model.module.config.hidden_size
    weights = {"w": torch.zeros(width), "b": torch.tensor([bias])}
    StateProbe("harm", (3,), weights, digest_of(model.version), {}).save(folder)
    return folder


def an_app(probes: Sequence[str], *, probe: dict[str, Any] | None = None, blocklist: str = "", **more: Any) -> TestApp:
    pipeline = {
        "moderate": ["probe", "blocklist"] if blocklist else ["probe"],
        "generate": ["engine"],
        "constrain": ["grammar"],
        "recall": ["memory"],
    }
    models = [{"path": "bundled", "probes": list(probes)}]
    listed = {"phrases": [blocklist or "unheard of"], "action": "block"}
    stages = {
        "generate": {"engine": {"models": models, "threads": 1}},
        "moderate": {"probe": UNITS | (probe or {}), "blocklist": listed},
    }
    return TestApp(pipeline=pipeline, stages=stages, **more)


TOOL = {"type": "function", "function": {"name": "look"}}
ASKED = {"model": "bundled", "max_tokens": 40, "temperature": 0}
FORM = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("bias", [CALM, GRAVE])
def test_a_gateway_judges_every_answer_by_the_states_of_its_own_pass(bias: float, stream: bool, tmp_path: Path) -> None:
    with an_app([str(save_probe(tmp_path, bias))]) as app:
        more = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": FORM}}}
        for extra in ({}, {}, more, more):  # the same again: a kept answer would have no states
            reply = app.ask("My name is Ada.", stream=stream, **ASKED, **extra)
            assert reply.status == 200
            assert (reply.finish_reason == "content_filter") == (bias == GRAVE)
            assert bool(reply.text) == (bias == CALM)
        judged = app.client.post("/v1/moderations", json={"model": "bundled", "input": "My name is Ada."})
        assert judged.status_code == 200
        said = app.client.get("/metrics").text
        assert "sluicegate_moderate_probe_tokens_total" in said


@pytest.mark.parametrize(
    ("asked", "policy", "channels", "way"),
    [
        ({}, {}, None, "joined"),
        ({"logprobs": True}, {}, None, "joined"),
        ({"tools": [TOOL]}, {}, None, "joined"),
        ({"tools": [TOOL]}, {}, ["content"], "one by one"),
        ({"tools": [TOOL], "stop": ["stop"]}, {}, None, "one by one"),
        ({}, {"mode": "shadow"}, None, "behind"),
        ({"tools": [TOOL]}, {"mode": "shadow"}, None, "behind"),
        ({"tools": [TOOL], "stop": ["stop"]}, {"mode": "shadow"}, None, "one by one"),
    ],
    ids=str,
)
def test_scores_come_together_where_nobody_waits_for_each(
    asked: dict[str, Any],
    policy: dict[str, Any],
    channels: list[str] | None,
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pieces are joined where a judge that acts holds all texts anyway; in shadow each token leaves as it comes, and
    the scores follow. Not where stop strings must be found between tokens."""
    jobs: list[Job] = []
    generate = Engine.generate

    async def watched(self: Engine, job: Job) -> Any:
        jobs.append(job)
        return await generate(self, job)

    monkeypatch.setattr(Engine, "generate", watched)
    policies = {"default": {"moderate": {"probe": policy}}}
    more = {} if channels is None else {"channels": channels}
    with an_app([str(save_probe(tmp_path, CALM))], settings={"policies": policies}, probe=more) as app:
        reply = app.ask("My name is Ada.", stream=True, **ASKED, **asked)
    assert reply.finish_reason in ("stop", "length", "tool_calls")
    ways = {(True, False): "joined", (False, True): "behind", (False, False): "one by one"}
    assert [ways[job.by_sentence, job.scores_behind] for job in jobs] == [way]


@pytest.mark.parametrize("bias", [CALM, GRAVE])
@pytest.mark.parametrize("asked", [{}, {"tools": [TOOL]}], ids=str)
def test_in_shadow_a_gateway_says_what_a_probe_would_have_done(
    asked: dict[str, Any], bias: float, tmp_path: Path
) -> None:
    """Of the whole answer, and of one that another rail stops at its first words, whose scores had not come."""
    settings = {"policies": {"default": {"moderate": {"probe": {"mode": "shadow"}}}}}
    with an_app([str(save_probe(tmp_path, bias))], settings=settings) as app:
        reply = app.ask("My name is Ada.", stream=False, **ASKED, **asked, sluicegate={"explain": True})
        assert reply.text
        assert would_block(reply) == (bias == GRAVE)
    first = reply.text.split()[0]
    with an_app([str(save_probe(tmp_path, bias))], settings=settings, blocklist=first) as app:
        reply = app.ask("My name is Ada.", stream=False, **ASKED, **asked, sluicegate={"explain": True})
        assert reply.finish_reason == "content_filter"
        assert would_block(reply) == (bias == GRAVE)


def would_block(reply: Any) -> bool:
    """Return whether a probe in shadow mode would have stopped the answer."""
    stages = reply.body["sluicegate"]["stages"]
    return "shadow block" in [stage["outcome"] for stage in stages if stage["stage"] == "probe"]


def scored(pieces: Sequence[Piece]) -> dict[tuple[Channel, int], list[tuple[str, list[float]]]]:
    """Return the parts of each text with their scores, whether these came with it or behind it."""
    texts: dict[tuple[Channel, int], str] = {}
    parts: dict[tuple[Channel, int], list[tuple[int, list[float]]]] = {}
    for piece in pieces:
        key = piece.channel, piece.call
        texts[key] = texts.get(key, "") + piece.text
        numbers = [one["harm"] for one in piece.probed]
        for size, count in piece.parts if piece.probed else ():
            parts.setdefault(key, []).append((size, numbers[:count]))
            numbers = numbers[count:]
    found: dict[tuple[Channel, int], list[tuple[str, list[float]]]] = {}
    for key, theirs in parts.items():
        ends = list(itertools.accumulate(size for size, _ in theirs))
        found[key] = [(texts[key][end - size : end], odds) for end, (size, odds) in zip(ends, theirs, strict=True)]
        assert ends[-1] == len(texts[key])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_regions_give_each_text_the_scores_of_its_tokens_however_these_come(seed: int) -> None:
    """Joined to sentences, or behind the text: as in single pieces, with the same log probabilities and counts."""
    chance = random.Random(seed)
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "a < b"}}\n</tool_call>'
    text = chance.choice(["", "<think>One thinks of < and of </ marks. </think>\n\n"]) + "It <is> said.\n"
    text += chance.choice(["", call, call + "\n" + call])
    single: list[Piece] = []
    at = 0
    while at < len(text):
        size = chance.randint(0, 6)
        data = text[at : at + size]
        entry = TokenLogprob(1, data, data.encode(), -1.0)
        single.append(Piece(0, data, (1,), (entry,), probed=({"harm": chance.uniform(-6, 6)},)))
        at += size
    single.append(Piece(0, finish_reason="stop"))
    ways = [single, list(joined_by(chance, single)), list(behind(chance, single))]
    shape = Shape(None, thoughts="asked", calls=True)
    regions = [Regions(shape, logprobs=True, scores_behind=way is ways[2]) for way in ways]
    found = [[part for piece in way for part in region.feed(piece)] for way, region in zip(ways, regions, strict=True)]
    assert scored(found[1]) == scored(found[0])
    assert scored(found[2]) == scored(found[0])
    assert len({region.thought_tokens for region in regions}) == 1
    assert len(found[1]) <= len(found[0])
    for other in found[1:]:
        for fact in ("logprobs", "tool", "ends", "finish_reason"):
            theirs, mine = [[getattr(one, fact) for one in way if getattr(one, fact)] for way in (other, found[0])]
            if fact == "logprobs":
                theirs, mine = list(itertools.chain(*theirs)), list(itertools.chain(*mine))
            assert theirs == mine


@pytest.mark.parametrize("seed", range(20))
def test_scores_behind_pieces_of_several_tokens_reach_the_text_of_each(seed: int) -> None:
    """A step appends several tokens where drafts are accepted; their scores follow token by token."""
    chance = random.Random(seed)
    text = "It is said that it is so.\n" * 5
    single = list(spoken([(text, None)], 3))
    single = [replace(one, probed=({"harm": chance.uniform(-6, 6)},) if one.text else ()) for one in single]
    pieces = list(behind(chance, list(joined_by(chance, single))))
    marked = [Piece(0, "<think>Why", (1,), probed=({"harm": 1.0},)), Piece(0, "?</think>Fine", (1, 1, 1))]
    regions = [Regions(Shape(None, thoughts="asked", calls=False), scores_behind=behind) for behind in (False, True)]
    found = [
        [part for piece in way for part in one.feed(piece)] for way, one in zip((single, pieces), regions, strict=True)
    ]
    assert scored(found[1]) == scored(found[0])
    thinking = Regions(Shape(None, thoughts="asked", calls=False), scores_behind=True)
    brought = Piece(
        0,
        " then",
        (1,),
        behind=True,
        probed=({"harm": 1.0}, *[{"harm": 2.0}] * 3),
        joined=((10, 1), (1, 1), (8, 1), (4, 1)),
    )
    bare = [replace(one, probed=()) for one in marked]
    parts = [part for piece in (*bare, brought) for part in thinking.feed(piece)]
    theirs = {part.channel: [one["harm"] for one in part.probed] for part in parts if part.behind}
    assert theirs == {"reasoning": [1.0, 2.0, 2.0, 2.0], "content": [2.0, 2.0, 2.0]}


def joined_by(chance: random.Random, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Join pieces as an engine does for who reads by sentence."""
    at = 0
    while at < len(pieces) - 1:
        some = pieces[at : min(at + chance.randint(1, 17), len(pieces) - 1)]
        at += len(some)
        yield join_pieces(some, some[-1])
    yield pieces[-1]


def behind(chance: random.Random, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Give each piece without its scores, and those of some with a later one, as an engine does where nobody waits."""
    due: list[Piece] = []
    for piece in pieces:
        bare = replace(piece, probed=(), joined=())
        if piece.finish_reason or len(due) > chance.randint(2, 40):
            due += [piece] if piece.finish_reason else []
            parts = tuple(part for one in due for part in one.parts)
            bare = replace(bare, probed=tuple(one for held in due for one in held.probed), joined=parts, behind=True)
            due = []
        yield bare
        due.append(piece)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("token_block", [2.0, 0.95])
async def test_in_shadow_scores_behind_the_text_say_what_scores_with_it_say(seed: int, token_block: float) -> None:
    """The same verdict, of the same category and with the same scores, in any cut."""
    chance = random.Random(seed)
    sentences = [FINE, "Boats lie there.\n", "A bridge (old) leads on, and on, and on; nobody knows where it ends. "]
    parts: list[tuple[str, float | None]] = []
    for _ in range(chance.randint(1, 12)):
        text = chance.choice(sentences)
        cut = chance.randrange(1, len(text))
        parts += [(text[:cut], CALM), (text[cut:], chance.choice([CALM, CALM, CALM, chance.uniform(-2, GRAVE)]))]
    single = list(spoken(parts, chance.randint(1, 5)))
    rail = built("probe", token_block=token_block, token_window=3)
    acting, _ = await left([rail], iter(single))
    expected, told = await left([rail], iter(single), mode="shadow")
    found, said = await left([rail], behind(chance, single), mode="shadow")
    assert (found.text, found.finish_reason) == (expected.text, expected.finish_reason)
    [one], [other] = told.decisions(), said.decisions()
    assert (one.outcome == "shadow block") == (acting.finish_reason == "content_filter")
    assert (other.outcome, other.detail) == (one.outcome, one.detail)


@pytest.mark.parametrize("seed", range(12))
async def test_scores_behind_an_ended_text_disturb_no_judge_that_acts(seed: int) -> None:
    """A probe in shadow mode beside a judge that acts: scores of thoughts may come when these have ended."""
    chance = random.Random(seed)
    text = f"<think>{BAD}</think>{FINE * 3}"
    single = [*spoken([(text, GRAVE)], 4)]
    regions = Regions(Shape(None, thoughts="asked"), scores_behind=True)
    rails = [built("probe", token_block=2.0), built("harm", block=2.0)]
    limits = WindowLimits(rail_policies={"probe": RailPolicy(mode="shadow")})
    request, named = make_request("What of the river?", reasoning=True), [(rail.name, rail) for rail in rails]
    moderation, judging = (kind(named, request, Caller(), limits) for kind in (Moderation, Judging))
    for piece in behind(chance, single):
        for part in regions.feed(piece):
            for step in await judging.feed(part):
                moderation.feed(step) if isinstance(step, Piece) else moderation.apply_verdict(step)
    for verdict in await judging.finish():
        moderation.apply_verdict(verdict)
    [answer] = moderation.answers()
    assert (answer.reasoning, answer.text, answer.finish_reason) == (BAD.rstrip(), FINE * 3, "stop")
    [outcome] = [one.outcome for one in moderation.decisions() if one.stage == "probe"]
    assert outcome == "shadow block"


async def test_a_judge_that_acts_reads_all_of_a_text_that_brings_scores_of_earlier_text() -> None:
    """Parts of the text before are not those of its own: in a JSON text, whose escapes are read part by part, most of
    it would go past the judge."""
    request = replace(make_request("x"), constraint=Constraint("json_object", None))
    rails = [built("probe"), built("harm", block=2.0)]
    read: list[str] = []
    limits = WindowLimits(rail_policies={"probe": RailPolicy(mode="shadow")})
    judging = Judging([(rail.name, rail) for rail in rails], request, Caller(), limits)
    bringing = Piece(0, 'They drink from the well."}', (1,), probed=({"harm": CALM},), joined=((9, 1),), behind=True)
    for piece in (Piece(0, '{"a": "x ', (1,)), bringing, Piece(0, finish_reason="stop")):
        read += [step.text for step in await judging.feed(piece) if isinstance(step, Piece)]
    await judging.finish()
    assert "".join(read) == '{"a": "x They drink from the well."}'
    [text] = judging._choices[0].values()
    assert text._fed == len('{"a": "x They drink from the well."}')


@pytest.mark.parametrize("seed", range(10))
async def test_escapes_that_come_in_parts_lose_no_scores(seed: int) -> None:
    """A token that only begins an escape has no text to read yet, and a state: it counts as in a joined piece."""
    chance = random.Random(seed)
    spelled = '{"text": "Fine.' + "\\u00e9" * chance.randint(1, 6) + ' words", "more": "A \\n line. And on."}'
    single = [*spoken([(spelled[:15], CALM), (spelled[15:40], 2.0), (spelled[40:], CALM)], 1)]
    single = [piece for piece in single if not piece.finish_reason] + single[-1:]
    scores = []
    for pieces in (iter(single), joined_by(chance, single)):
        _, moderation = await left([built("probe", token_block=2.0, block=2.0)], pieces, is_json=True)
        scores.append(moderation.decisions()[0].detail["scores"])
    assert scores[0] == scores[1]


@pytest.mark.parametrize("seed", range(25))
async def test_an_answer_in_joined_pieces_ends_as_in_single_ones(seed: int) -> None:
    """Text that left, end and reason; alone, and beside another judge."""
    chance = random.Random(seed)
    sentences = [FINE, "Boats lie there.\n", "A bridge (old) leads on, and on, and on; nobody knows where it ends. "]
    parts: list[tuple[str, float | None]] = []
    for _ in range(12):
        text = chance.choice(sentences)
        cut = chance.randrange(1, len(text))
        parts += [(text[:cut], CALM), (text[cut:], chance.choice([CALM, CALM, CALM, chance.uniform(-2, GRAVE)]))]
    single = list(spoken(parts, chance.randint(2, 5)))
    probe = built("probe", token_block=0.95, token_window=3)
    for rails in ([probe], [probe, built("harm")]):
        expected, _ = await left(rails, iter(single))
        found, _ = await left(rails, joined_by(chance, single))
        assert (found.text, found.finish_reason) == (expected.text, expected.finish_reason)


async def test_strings_of_a_json_text_are_joined_as_their_reader_has_them() -> None:
    """Escapes in the middle of a piece: parts are counted in characters that are read."""
    request = replace(make_request("x"), constraint=Constraint("json_object", None))
    said = [('{"a": "x', CALM), ("\\", CALM), ("nThey drink", GRAVE), ("\\u00e9.", CALM)]
    pieces = [Piece(0, text, (1,), probed=({"harm": odds},)) for text, odds in said]
    ends = []
    for given in (pieces, [*joined_by(random.Random(4), [*pieces, Piece(0)])]):
        judging = Judging([("probe", built("probe", token_block=0.9, token_window=1))], request, Caller())
        for piece in given:
            await judging.feed(piece)
        ends.append(judging.scores())
    assert ends[0] == ends[1]
    assert ends[0]["probe"]["harm/token"] > 0.9


def test_a_gateway_whose_models_have_no_probes_does_not_start() -> None:
    with pytest.raises(ConfigurationError, match="sluicegate probe"):
        check_probes([("probe", built("probe"))], ScriptedModel(["It is fine"]))


async def test_failures_of_one_answer_leave_the_rail_standing() -> None:
    """Its breaker does not open: there is no text that it could be tried on."""
    rail = built("probe")
    assert await judges(rail, RailPolicy())
    assert RailHealth().runs("moderate", "probe", RailPolicy())
