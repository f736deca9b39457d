"""Run a worker process of a tensor-parallel model: it holds one shard of the weights and of the KV pool, and follows
the messages it receives. Started by `engine.parallel.worker_group`, with two file descriptors: a socket for messages,
and a pipe at whose end of file it exits."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.failures import first_line
from sluicegate.engine.model.loading import load_model
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.parallel.messages import (
    ComputeStep,
    CopyBlocks,
    DropPool,
    JoinGroup,
    LoadShard,
    OpenPool,
    PoolOpened,
    ScrubBlocks,
    ShardLoaded,
    ShardReady,
    WorkerFailed,
)
from sluicegate.engine.parallel.shard import Shard


def main(link: int, alive: int) -> None:
    """Follow messages until the first process closes its end of `alive`, or exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the first process ends when it is done
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    try:
        follow(Connection(link))
    except (EOFError, ConnectionError):
        return


def _end_with(alive: int) -> None:
    """Exit this process, whatever it is waiting for, once nobody holds the other end of `alive`."""
    os.read(alive, 1)
    os._exit(0)


def follow(link: Connection[Any, Any]) -> None:
    """Load a shard, then handle messages. An exception in a pass ends the process, since the others then wait for it in
    vain."""
    begin = link.recv()
    try:
        model = _load(begin, link)
    except Exception as error:
        link.send(WorkerFailed(f"process {begin.rank} of {begin.size}: {error}"))
        raise
    link.send(ShardReady(model.version))
    with torch.inference_mode():
        _serve(link, model)


def _load(begin: LoadShard, link: Connection[Any, Any]) -> LoadedModel:
    device = torch.device(begin.device, begin.rank) if begin.device == "cuda" else torch.device(begin.device)

    def wait_for_peers() -> None:
        torch.set_num_threads(begin.threads or max(1, (os.cpu_count() or 2) - 1) // begin.size or 1)
        link.send(ShardLoaded())
        join: JoinGroup = link.recv()
        shard.connect(join.path, device, join.timeout_s)

    shard = Shard(begin.rank, begin.size, wait_for_peers)
    return load_model(begin.path, dtype=begin.dtype, device=str(device), shard=shard, proves=begin.proves)


def _serve(link: Connection[Any, Any], model: LoadedModel) -> None:
    runners: dict[int, ModelRunner] = {}
    while True:
        match link.recv():
            case ComputeStep() as step:
                runners[step.pool].follow(_inputs(step))
            case ScrubBlocks(pool, blocks):
                runners[pool].scrub(blocks)
            case CopyBlocks(pool, copies):
                runners[pool].copy(copies)
            case DropPool(pool):
                del runners[pool]
            case OpenPool() as facts:
                _answer(link, lambda facts=facts: runners.update({facts.pool: _runner(model, facts)}))  # type: ignore[misc]


def _answer(link: Connection[Any, Any], act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:
        link.send(WorkerFailed(f"another process of the model has no room for its KV cache: {first_line(error)}"))
    else:
        link.send(PoolOpened())


def _runner(model: LoadedModel, facts: OpenPool) -> ModelRunner:
    model.layers = facts.layers
    return ModelRunner(
        model,
        facts.num_blocks,
        facts.block_size,
        RunnerOptions(attention=facts.attention, forward="transformers", kv=facts.kv, max_tokens=facts.max_tokens),
    )


def _inputs(step: ComputeStep) -> StepInputs:
    stretches = [TokenSpan(start, count, table) for start, count, table in step.stretches]
    return StepInputs(step.ids, step.positions, step.slots, step.wanted, stretches)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
