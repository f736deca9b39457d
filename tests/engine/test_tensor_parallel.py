"""A model shared by several processes answers as one process does, and outlives the loss of any of them."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel, load_model
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.model.embedding import read_texts
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.parallel import split, worker_group
from sluicegate.engine.parallel.shard import Shard
from sluicegate.engine.settings import ModelSettings
from sluicegate.plugins import ConfigurationError, GenerationFailed, ModelLoadError, Overloaded, RequestError
from tests.engine.driving import a_job, collect, prompts, run
from tests.engine.tiny_models import FAMILIES, OTHERS, save_tiny
from tests.waiting import LIMIT_S, soon

SHARED = ("gemma2", "gemma3", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
IDS = np.array(prompts([40])[0])


def shared(folder: Path, size: int, place: Path) -> list[LoadedModel]:
    """Load all shards of a model, each on a thread of its own, as the processes of a group do."""
    loading = threading.Lock()  # `transformers` keeps a setting of loading in the environment

    def shard(rank: int) -> LoadedModel:
        def wait_for_peers() -> None:
            loading.release()
            own.connect(str(place), torch.device("cpu"), 300.0)

        own = Shard(rank, size, wait_for_peers)
        loading.acquire()
        return load_model(folder, shard=own)

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(shard, range(size)))


def scores(*models: LoadedModel, **settings: Any) -> list[torch.Tensor]:
    """Return the logprobs of `IDS` by each of the processes, with prompts in chunks through the paged cache."""

    def score(model: LoadedModel) -> torch.Tensor:
        return ModelRunner(model, 16, 4, RunnerOptions(forward="transformers", **settings)).score(IDS, 7)

    with ThreadPoolExecutor(len(models)) as threads:
        return list(threads.map(score, models))


@pytest.mark.parametrize("family", SHARED)
def test_shares_of_a_model_compute_what_the_whole_model_does(
    tiny_folder: Callable[..., Path], tiny: Callable[..., LoadedModel], tmp_path: Path, family: str
) -> None:
    models = shared(tiny_folder(family), 2, tmp_path / "group")
    (whole,) = scores(tiny(family))
    for found in scores(*models):
        torch.testing.assert_close(found, whole, atol=2e-4, rtol=1e-4)
    assert models[0].version == tiny(family).version
    weights = [sum(p.numel() for p in one.module.model.layers.parameters()) for one in (*models, tiny(family))]
    assert weights[0] < 0.6 * weights[2], "a shard holds about half of the layers"
    heads = [layer.kv_heads for layer in tiny(family).layers]
    assert [layer.kv_heads for layer in models[1].layers] == [count // 2 for count in heads]


@pytest.mark.parametrize(("size", "kv_heads", "vocab"), [(2, 1, 266), (4, 2, 267)])
def test_fewer_key_heads_than_processes_are_kept_by_several(
    tmp_path: Path, size: int, kv_heads: int, vocab: int
) -> None:
    """And a vocabulary that no number of processes divides."""
    folder = save_tiny(tmp_path, "qwen2", num_key_value_heads=kv_heads, vocab_size=vocab, tie_word_embeddings=True)
    models = shared(folder, size, tmp_path / "group")
    (whole,) = scores(load_model(folder))
    for found in scores(*models):
        torch.testing.assert_close(found, whole, atol=2e-4, rtol=1e-4)
    assert {layer.kv_heads for model in models for layer in model.layers} == {1}


def test_all_families_that_are_shared_are_compared() -> None:
    kinds = {f"{(FAMILIES | OTHERS)[family][0]}" for family in SHARED}
    assert len(kinds) == len(split.FAMILIES) == len(SHARED)


def settings_of(folder: Path, **own: Any) -> EngineSettings:
    model = ModelSettings(path=str(folder), name="shared", **own)
    return EngineSettings(
        models=(model,), block_size=4, num_blocks=64, max_batch_size=4, max_batch_tokens=64, threads=1
    )


async def answers(engine: Engine) -> list[list[list[int]]]:
    """Greedy, seeded, several choices, and a beam search, of which some share a beginning."""
    model = engine.models["shared"]
    short, long, other = prompts([5, 30, 17])
    jobs = [
        a_job(model, long),
        a_job(model, short, temperature=1.0, seed=7, n=2),
        a_job(model, [*long, 3], logprobs=2),
        a_job(model, other, n=3, use_beam_search=True, max_tokens=6),
    ]
    return [result.tokens for result in await run(engine, *jobs)]


async def test_two_processes_answer_as_one_and_are_started_again_when_one_is_killed(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "qwen3_moe")
    whole = Engine(settings_of(folder))
    await whole.start()
    expected = await answers(whole)
    await whole.close()

    engine = Engine(settings_of(folder, tensor_parallel=2))
    await engine.start()
    model: Any = engine.models["shared"]
    try:
        assert await answers(engine) == expected
        (process,) = model.group._workers._processes
        process.popen.send_signal(signal.SIGSTOP)  # the next pass waits for it
        waiting = await engine.generate(a_job(model, prompts([9])[0]))
        await soon(lambda: engine.stats()["requests_running"] == 1)
        process.popen.kill()
        with pytest.raises(GenerationFailed, match=r"process 1 of the 2 .* ended killed by SIGKILL.* send the request"):
            await collect(waiting)
        assert [trouble.refuses for trouble in engine.troubles()] == [True]
        with pytest.raises(Overloaded, match="are started again; send the request again"):
            await engine.generate(a_job(model, [1, 2, 3]))
        await soon(lambda: engine.stats()["shared_model_restarts_total"] == 1)
        assert not engine.troubles()
        assert await answers(engine) == expected
        (process,) = model.group._workers._processes
    finally:
        await engine.close()
    assert process.popen.poll() is not None, "no process is left behind"


async def test_a_slow_process_delays_answers_and_changes_none(tmp_path: Path) -> None:
    engine = Engine(settings_of(save_tiny(tmp_path, "llama"), tensor_parallel=2))
    await engine.start()
    model: Any = engine.models["shared"]
    try:
        expected = await answers(engine)
        (process,) = model.group._workers._processes
        process.popen.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(answers(engine))
        await soon(lambda: engine.stats()["requests_running"] >= 1)
        await asyncio.sleep(1.0)
        assert not waiting.done()
        process.popen.send_signal(signal.SIGCONT)
        assert await waiting == expected
        assert engine.stats()["shared_model_restarts_total"] == 0
    finally:
        await engine.close()
    assert process.popen.poll() is not None


async def test_a_process_killed_while_it_starts_again_is_replaced_by_another(tmp_path: Path) -> None:
    engine = Engine(settings_of(save_tiny(tmp_path, "llama"), tensor_parallel=2))
    await engine.start()
    model: Any = engine.models["shared"]
    seen = []
    try:
        expected = await answers(engine)
        (process,) = model.group._workers._processes
        seen.append(process)
        process.popen.kill()
        await soon(lambda: _of(model) not in (None, seen[0]))
        seen.append(_of(model))
        seen[1].popen.kill()  # it has just begun to import
        await soon(lambda: engine.stats()["shared_model_restarts_total"] >= 1 and not engine.troubles())
        assert await answers(engine) == expected
        seen.append(_of(model))
    finally:
        await engine.close()
    assert len({id(one) for one in seen}) == 3
    assert all(one.popen.poll() is not None for one in seen), "no process is left behind"


def _of(model: Any) -> Any:
    """Return the other process of a model's newest group; None while there is none."""
    return next(iter(getattr(model.group._workers, "_processes", [])), None)


@pytest.mark.parametrize("delay_s", [0.0, 0.5, 2.0])
def test_a_process_killed_while_it_starts_refuses_the_model_and_leaves_none(
    delay_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    begun = worker_group._WorkerProcess.__init__

    def killed(self: Any, task: Any) -> None:
        begun(self, task)
        made.append(self)
        threading.Timer(delay_s, self.popen.kill).start()

    monkeypatch.setattr(worker_group._WorkerProcess, "__init__", killed)

    async def start() -> None:
        engine = Engine(settings_of(save_tiny(tmp_path, "llama"), tensor_parallel=2))
        try:
            await engine.start()
        finally:
            await engine.close()

    with pytest.raises(ModelLoadError, match=r"process 1 of the 2 that compute it ended killed by SIGKILL"):
        asyncio.run(start())
    assert made
    assert made[0].popen.poll() is not None


def test_processes_that_began_are_ended_where_the_next_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the machine has no room for another: the first had waited for its peers without end."""
    made: list[Any] = []

    class Process:
        def __init__(self, task: Any) -> None:
            if made:
                raise OSError("no room for another process")
            made.append(self)
            self.ended = False

        def end(self) -> None:
            self.ended = True

    monkeypatch.setattr(worker_group, "_WorkerProcess", Process)
    tasks: Any = [1, 2]
    with pytest.raises(ModelLoadError, match="'m': its 3 processes cannot be started: no room for another process"):
        worker_group.WorkerGroup(tasks, "m", lambda: None)
    assert made[0].ended


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"models": [{"path": "m", "tensor_parallel": 2, "adapter": "a"}]}, "tensor_parallel = 2 and adapter"),
        ({"models": [{"path": "m", "tensor_parallel": 2, "heads": "h"}]}, "tensor_parallel = 2 and heads"),
        ({"models": [{"path": "m", "tensor_parallel": 2, "probes": ["p"]}]}, "tensor_parallel = 2 and probes"),
        ({"models": [{"path": "m", "tensor_parallel": 2}], "weights": "int8"}, "weights is 'int8', which only models"),
        ({"models": [{"path": "m", "tensor_parallel": 2}], "offload_bytes": 9}, "offload_bytes is 9, which only"),
        ({"models": [{"path": "m", "tensor_parallel": 0}]}, "tensor_parallel"),
    ],
)
def test_what_a_shared_model_cannot_have_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        EngineSettings.of(wrong)


@pytest.mark.parametrize(
    ("family", "changes", "size", "told"),
    [
        ("phi", {}, 2, "is a phi, whose layers are not split here; tensor_parallel is for gemma2, .*: leave it out"),
        ("llama", {}, 3, "num_attention_heads = 4, intermediate_size = 64, num_key_value_heads = 2, which 3 processes"),
        ("qwen3_moe", {"moe_intermediate_size": 33}, 2, "moe_intermediate_size = 33, which 2 processes"),
    ],
)
def test_a_model_that_cannot_be_split_is_refused(
    tmp_path: Path, family: str, changes: dict[str, Any], size: int, told: str
) -> None:
    with pytest.raises(ModelLoadError, match=told):
        load_model(save_tiny(tmp_path, family, **changes), shard=Shard(0, size))


def test_a_shared_model_embeds_nothing_and_takes_no_adapter(tmp_path: Path) -> None:
    model = load_model(save_tiny(tmp_path))
    model.is_sharded = True
    with pytest.raises(RequestError, match=r"shared by processes .* embeds no texts"):
        read_texts(model, ["a text"])
    with pytest.raises(ModelLoadError, match=r"shared by processes .* no adapter"):
        load_lora(model, str(tmp_path), "adapter")


async def test_a_process_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_tiny(tmp_path, "llama")
    monkeypatch.setattr("sluicegate.engine.parallel.worker_group._FOLLOWER", "sluicegate.no_such_module")
    engine = Engine(settings_of(folder, tensor_parallel=2))
    with pytest.raises(ModelLoadError, match="process 1 of the 2 that compute it ended with status 1"):
        await engine.start()
    await engine.close()


def test_a_group_is_not_freed_while_a_thread_waits_in_it(tmp_path: Path) -> None:
    """As when the engine's thread hangs in an exchange and is replaced: gloo would abort this process."""
    shards = [Shard(rank, 2) for rank in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda shard: shard.connect(str(tmp_path / "group"), torch.device("cpu"), 3.0), shards))
        list(pool.map(lambda shard: shard.all_reduce(torch.ones(4)), shards))
        waits = pool.submit(shards[0].all_reduce, torch.ones(4))  # for another that never comes
        while not waits.running():
            time.sleep(0.01)
        shards[0].abort()
        assert not waits.done(), "freeing it waits for the exchange"
        with pytest.raises(RuntimeError):
            waits.result(LIMIT_S)
        with pytest.raises(RuntimeError, match="not connected"):
            shards[0].all_reduce(torch.ones(4))
