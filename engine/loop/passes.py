"""Run the forward passes of scheduled batches, and isolate rows that raise."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.cpu import WantedLogits
from sluicegate.engine.cuda.memory import release_cached
from sluicegate.engine.failures import as_failure
from sluicegate.engine.loop.counters import CoreCounters
from sluicegate.engine.loop.requests import Requests
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.speculation.proposer import Proposer


class ForwardPasses:
    """The forward passes of one core. Used by the engine thread alone."""

    def __init__(
        self,
        model: LoadedModel,
        runner: ModelRunner,
        requests: Requests,
        proposer: Proposer,
        counters: CoreCounters,
    ) -> None:
        self._model = model
        self._runner = runner
        self._requests = requests
        self._proposer = proposer
        self._counters = counters
        self._is_asynchronous = model.device.type == "cuda"

    def run(self, batch: Batch, wanted: WantedLogits | None) -> tuple[list[BatchRow], Tensor]:
        """Return the sampled rows and their logits [R, V] float32. If the pass raises, each row is run alone; those
        that raise again fail their requests and are left out."""
        began = time.perf_counter()
        try:
            logits = self._runner.run(batch, wanted)
            self._proposer.learn(batch)
            return batch.sampled, logits
        except Exception:
            return self._run_alone(batch)
        finally:
            self._counters.forward_s += (took := time.perf_counter() - began)
            if not self._is_asynchronous:
                self._proposer.note_step(took)

    def _run_alone(self, batch: Batch) -> tuple[list[BatchRow], Tensor]:
        """Run each row in its own pass; fail the requests of rows that raise."""
        release_cached()
        rows: list[BatchRow] = []
        logits = [torch.empty(0, self._model.vocab_size, device=self._model.device)]
        for row in batch.rows:
            try:
                logits.append(self._runner.run(Batch([row])).clone())
            except Exception as error:
                self._requests.fail(row.sequence.owner, as_failure(error, "the forward pass"))
            else:
                rows += [row] if row.is_last else []
        return rows, torch.cat(logits)
