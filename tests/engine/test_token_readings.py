"""Guards with heads on tokens: loaded as published, refused where they do not fit, equal to torch in every cut."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import shutil
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, Qwen3Model

from benchmarks.tiny_token_guard import BAD, MAPS, save_tiny_token_guard
from sluicegate.engine import Engine, EngineSettings
from sluicegate.engine.loop.token_readings import TokenReadings, _victim
from sluicegate.engine.model.loading import load_model
from sluicegate.engine.model.model import GuardModel
from sluicegate.engine.sequences.growing_text import GrowingText
from sluicegate.engine.settings import ModelSettings
from sluicegate.plugins import (
    ContextLengthExceeded,
    GenerationFailed,
    Job,
    ModelLoadError,
    Overloaded,
    Prompt,
    RequestError,
    Sampling,
    TokenJudgement,
)
from tests.waiting import until

Judged = list[TokenJudgement]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a guard with random weights."""
    return save_tiny_token_guard(tmp_path_factory.mktemp("guards") / "chance", chance=3)


@pytest.fixture(scope="module")
def model(folder: Path) -> GuardModel:
    loaded = load_model(folder, name="guard")
    assert isinstance(loaded, GuardModel)
    return loaded


def engine_of(model: GuardModel, **settings: Any) -> Engine:
    return Engine(EngineSettings(**{"forward": "transformers", "attention": "reference", **settings}), [model])


def tokens(size: int, seed: int = 0) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(500) for _ in range(size)]


@torch.inference_mode()
def by_torch(folder: Path, ids: Sequence[int], query: str) -> list[tuple[str, str]]:
    """Return levels and categories of every token, from the whole text at once, by `transformers` and the tensors
    alone."""
    stored = load_file(folder / "model.safetensors")
    config = AutoConfig.from_pretrained(folder)
    body = Qwen3Model(config).eval()
    body.load_state_dict({name.removeprefix("model."): t for name, t in stored.items() if name.startswith("model.")})
    states = body(input_ids=torch.tensor([list(ids)])).last_hidden_state[0]
    inner = states @ stored[f"{query}risk_level_category_pre.weight"].T
    inner = inner / (inner.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt()
    inner = inner * stored[f"{query}risk_level_category_layernorm.weight"]
    levels = (inner @ stored[f"{query}risk_level_head.weight"].T).argmax(-1)
    named = (inner @ stored[f"{query}category_head.weight"].T).argmax(-1)
    kind = "query" if query else "response"
    first, second = MAPS[f"{kind}_risk_level_map"], MAPS[f"{kind}_category_map"]
    return [(first[a], second[b]) for a, b in zip(levels.tolist(), named.tolist(), strict=True)]


def levels_and_categories(found: Sequence[TokenJudgement]) -> list[tuple[str, str]]:
    return [(one.level, one.category) for one in found]


async def in_pieces(engine: Engine, ids: Sequence[int], sizes: Callable[[], int], tenant: str = "t") -> Judged:
    reading, at = engine.open_reading("guard", tenant), 0
    found: Judged = []
    while at < len(ids):
        now = ids[at : at + sizes()]
        found += await reading.judge(now, len(now))
        at += len(now)
    return found


# --- what they compute ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
async def test_every_token_is_judged_as_torch_does_in_every_cut(
    folder: Path, model: GuardModel, compiled: bool
) -> None:
    ids, chance = tokens(60), random.Random(1)
    expected = by_torch(folder, ids, "")
    assert len({*expected}) > 3
    own = {"forward": "auto", "attention": "auto"} if compiled else {}
    engine = engine_of(model, max_batch_tokens=40, max_batch_size=8, **own)
    await engine.start()
    try:
        for sizes in (lambda: 1, lambda: 60, lambda: chance.randint(1, 30)):
            found = await in_pieces(engine, ids, sizes)
            assert levels_and_categories(found) == expected
            assert all(1 / 3 < one.probability <= 1 for one in found)
        reading = engine.open_reading("guard", "t")
        asked = await reading.judge(ids[:40], 40, asked=True)
        assert levels_and_categories(asked) == by_torch(folder, ids[:40], "query_")
        assert levels_and_categories(await reading.judge(ids[40:], 7)) == expected[-7:]
    finally:
        await engine.close()


async def test_texts_judged_together_are_judged_as_alone_also_where_blocks_run_out(
    folder: Path, model: GuardModel
) -> None:
    """Four texts of up to 35 tokens in a pool of 8 blocks of 8: most give their blocks up again and again."""
    texts = [tokens(20 + 5 * at, seed=at) for at in range(4)]
    engine = engine_of(model, num_blocks=8, block_size=8, max_batch_size=4, max_batch_tokens=16)
    await engine.start()
    try:
        readers = [in_pieces(engine, ids, lambda: 5, f"tenant-{at % 3}") for at, ids in enumerate(texts)]
        found = await asyncio.gather(*readers)
        assert [levels_and_categories(one) for one in found] == [by_torch(folder, ids, "") for ids in texts]
        gc.collect()
        pool = engine._registry.cores[0].scheduler.pool
        await asyncio.to_thread(until, lambda: pool.free_count == 8)
    finally:
        await engine.close()


async def test_an_answer_costs_one_token_of_computing_for_each_of_its_tokens(
    model: GuardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(model)
    kind = type(engine._registry.cores[0]._runner)
    features, passes = kind.features, list[int]()

    def counted(self: Any, inputs: Any) -> torch.Tensor:
        passes.append(len(inputs.ids))
        found: torch.Tensor = features(self, inputs)
        return found

    monkeypatch.setattr(kind, "features", counted)
    await engine.start()
    try:
        reading = engine.open_reading("guard", "t")
        for token in tokens(40):
            await reading.judge([token], 1)
        assert passes == [1] * 40
        await engine.open_reading("guard", "t").judge(tokens(40), 1)
        assert passes[40:] == [8]  # 32 are in whole blocks that the first text has
        await engine.open_reading("guard", "u").judge(tokens(40), 1)
        assert passes[41:] == [40]  # what one tenant's answers were is nobody else's
    finally:
        await engine.close()


# --- what is refused ------------------------------------------------------------------------------------------------


def changed(folder: Path, to: Path, tensors: Callable[[dict[str, Any]], Any], **fields: Any) -> Path:
    shutil.copytree(folder, to)
    stored = load_file(to / "model.safetensors")
    tensors(stored)
    save_file(stored, to / "model.safetensors", {"format": "pt"})
    config = {**json.loads((to / "config.json").read_text()), **fields}
    (to / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return to


NAMES = [
    f"{query}{name}.weight"
    for query in ("", "query_")
    for name in ("risk_level_category_pre", "risk_level_category_layernorm", "risk_level_head", "category_head")
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["missing", "shape", "nan"])
def test_a_folder_whose_heads_do_not_fit_is_refused_by_the_name_of_the_tensor(
    folder: Path, tmp_path: Path, name: str, how: str
) -> None:
    def change(stored: dict[str, Any]) -> None:
        whole = stored.pop(name)
        if how == "shape":
            stored[name] = whole[:-1].contiguous()
        elif how == "nan":
            stored[name] = torch.full_like(whole, float("nan"))

    with pytest.raises(ModelLoadError, match=name.replace(".", r"\.")):
        load_model(changed(folder, tmp_path / "guard", change))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"response_risk_level_map": None}, "response_risk_level_map"),
        ({"query_category_map": {"0": "a", "2": "b"}}, "query_category_map"),
        ({"response_risk_level_map": {"0": "Safe", "1": "Unsafe", "2": "Grey"}}, "'Grey'"),
        ({"response_category_map": {"0": "Violent"}}, r"category_head\.weight"),
        ({"guard_inner_size": None}, "guard_inner_size"),
        ({"guard_inner_size": True}, "guard_inner_size"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "no place for"),
    ],
)
def test_a_configuration_that_does_not_say_what_the_heads_mean_is_refused(
    folder: Path, tmp_path: Path, fields: dict[str, Any], word: str
) -> None:
    with pytest.raises(ModelLoadError, match=word):
        load_model(changed(folder, tmp_path / "guard", lambda stored: None, **fields))


def test_a_vocabulary_matrix_of_its_own_is_passed_over_and_other_tensors_are_not(folder: Path, tmp_path: Path) -> None:
    def larger(stored: dict[str, Any]) -> None:
        stored["lm_head.weight"] = torch.randn(stored["model.embed_tokens.weight"].shape)

    untied = changed(folder, tmp_path / "untied", larger, tie_word_embeddings=False)
    assert isinstance(load_model(untied), GuardModel)
    strange = changed(folder, tmp_path / "strange", lambda stored: stored.update(third_head=torch.ones(3)))
    with pytest.raises(ModelLoadError, match="third_head"):
        load_model(strange)


async def test_a_guard_neither_writes_nor_embeds_and_others_judge_no_tokens(model: GuardModel) -> None:
    engine = engine_of(model)
    await engine.add_model(ModelSettings())
    await engine.start()
    try:
        with pytest.raises(RequestError, match="judges tokens"):
            await engine.generate(Job("r", "guard", Prompt("", (1, 2)), Sampling()))
        with pytest.raises(RequestError, match="judges tokens"):
            await engine.embed(["a"], model="guard")
        with pytest.raises(RequestError, match="no heads"):
            engine.open_reading("bundled", "t")
        reading = engine.open_reading("guard", "t")
        for ids, last in (([], 1), ([1], 0), ([1], 2), ([-1], 1), ([model.vocab_size], 1)):
            with pytest.raises(RequestError):
                await reading.judge(ids, last)
        with pytest.raises(ContextLengthExceeded):
            await reading.judge([1] * (reading.room + 1), 1)
        assert len(await reading.judge([1] * 3, 3)) == 3  # what was refused left nothing behind
    finally:
        await engine.close()


# --- what breaks ----------------------------------------------------------------------------------------------------


async def test_a_text_whose_numbers_are_none_fails_alone(
    folder: Path, model: GuardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The features of one token are NaN; texts beside it go on, and so do later ones in the same blocks."""
    ids, poisoned = tokens(40), 499
    features = type(engine_of(model)._registry.cores[0]._runner).features

    def broken(self: Any, inputs: Any) -> torch.Tensor:
        found = features(self, inputs).clone()
        found[torch.from_numpy(inputs.ids[inputs.wanted] == poisoned)] = float("nan")
        return found

    ids = [at if at != poisoned else 1 for at in ids]
    engine = engine_of(model, num_blocks=20, block_size=8)
    monkeypatch.setattr(type(engine._registry.cores[0]._runner), "features", broken)
    await engine.start()
    try:
        good = asyncio.ensure_future(in_pieces(engine, ids, lambda: 3))
        with pytest.raises(GenerationFailed, match="NaN"):
            await in_pieces(engine, [5, 6, poisoned, 7], lambda: 4)
        assert levels_and_categories(await good) == by_torch(folder, ids, "")
        assert levels_and_categories(await in_pieces(engine, ids, lambda: 9)) == by_torch(folder, ids, "")
    finally:
        await engine.close()


async def test_a_pass_that_raises_ends_the_text_that_it_raises_for(
    folder: Path, model: GuardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(engine_of(model)._registry.cores[0]._runner)
    features = kind.features

    def broken(self: Any, inputs: Any) -> torch.Tensor:
        if 499 in inputs.ids:
            raise RuntimeError("no such token")
        found: torch.Tensor = features(self, inputs)
        return found

    ids = [at if at != 499 else 1 for at in tokens(40)]
    engine = engine_of(model)
    monkeypatch.setattr(kind, "features", broken)
    await engine.start()
    try:
        both = asyncio.gather(
            in_pieces(engine, ids, lambda: 3), in_pieces(engine, [5, 499], lambda: 1), return_exceptions=True
        )
        good, bad = await both
        assert not isinstance(good, BaseException)
        assert levels_and_categories(good) == by_torch(folder, ids, "")
        assert isinstance(bad, GenerationFailed)
    finally:
        await engine.close()


async def test_a_pool_that_is_too_small_for_one_text_says_so(model: GuardModel) -> None:
    engine = engine_of(model, num_blocks=2, block_size=8)
    await engine.start()
    try:
        reading = engine.open_reading("guard", "t")
        assert reading.room == 16
        assert len(await reading.judge(tokens(16), 16)) == 16
        with pytest.raises(ContextLengthExceeded):
            await reading.judge([1], 1)
    finally:
        await engine.close()


async def test_who_asks_hears_of_an_engine_that_closes_or_is_given_up(
    model: GuardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(model, drain_s=0.0)
    reading = engine.open_reading("guard", "t")
    waiting = asyncio.ensure_future(reading.judge([1], 1))  # the thread has not begun
    await asyncio.sleep(0)
    engine._worker.abandon(GenerationFailed("the engine made no progress"))
    with pytest.raises(GenerationFailed, match="no progress"):
        await waiting
    other = engine_of(model, drain_s=0.0)
    await other.start()
    stuck = monkeypatch.setattr(TokenReadings, "step", lambda self: 0)
    assert stuck is None
    asked = asyncio.ensure_future(other.open_reading("guard", "t").judge([1], 1))
    await asyncio.sleep(0)
    await other.close()
    with pytest.raises(Overloaded):
        await asked
    with pytest.raises(Overloaded):
        await other.open_reading("guard", "t").judge([1], 1)


async def test_a_text_goes_on_where_its_guard_gets_another_core_and_not_another_model(
    folder: Path, model: GuardModel
) -> None:
    ids = tokens(50)
    expected = by_torch(folder, ids, "")
    engine = engine_of(model)
    await engine.start()
    try:
        reading = engine.open_reading("guard", "t")
        found = list(await reading.judge(ids[:30], 30))
        [old] = engine._registry.cores
        made = engine._cores.make(old.model)
        engine._worker.adopt(made)
        engine._registry.exchange(old, made)  # as once its loops are compiled
        found += await reading.judge(ids[30:], 20)
        assert levels_and_categories(found) == expected
        await engine.add_model(ModelSettings(path=str(folder), name="guard"), replace=True)
        with pytest.raises(GenerationFailed, match="replaced"):
            await reading.judge([1], 1)
    finally:
        await engine.close()


@pytest.mark.parametrize("weights", ["int8", "int4"])
async def test_rounded_guards_judge_plain_words_alike(tmp_path: Path, weights: Any) -> None:
    place = save_tiny_token_guard(tmp_path / "guard")
    engine = Engine(EngineSettings(models=(ModelSettings(path=str(place), name="guard"),), weights=weights))
    await engine.start()
    try:
        tokenizer = engine.models["guard"].tokenizer
        ids = tokenizer(f"a {BAD} b", add_special_tokens=False)["input_ids"]
        found = await engine.open_reading("guard", "t").judge(ids, len(ids))
        levels = [one.level for one in found]
        assert levels.count("Unsafe") == 1
        assert levels.index("Unsafe") == ids.index(tokenizer.convert_tokens_to_ids(BAD))
    finally:
        await engine.close()


def test_older_texts_take_blocks_from_younger_ones_and_from_those_nobody_asks_about() -> None:
    oldest, middle, youngest = (GrowingText(b"", born=at, used_s=inf) for at in (1, 2, 3))
    assert _victim(oldest, {middle, youngest}, set()) is youngest
    assert _victim(middle, {oldest, youngest}, {oldest}) is youngest
    assert _victim(youngest, {oldest, middle}, set()) is None
    oldest.used_s = 0.0
    assert _victim(youngest, {oldest, middle}, set()) is oldest
    assert _victim(youngest, {oldest, middle}, {oldest}) is None  # it waits for its turn
