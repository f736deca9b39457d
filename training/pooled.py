"""The trainer for one GPU: rows come from makers and are kept on the device, where masks and targets are made of them.

A GPU takes rows faster than the cores beside it make them, so that every row is seen a few times; `seen` in the log
says how often. The mean of the last states lies in `WORK/mean`, beside the last state in `--out`.
"""

from __future__ import annotations

import argparse
import shutil
from typing import Any

import torch
from torch import Tensor

from training.forward import places_of
from training.model import export
from training.packing import LENGTHS, row_length
from training.pool import Pool
from training.row_makers import start_makers
from training.rows import expanded
from training.trainer import Trainer


class PooledTrainer(Trainer):
    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        folder = options.work / "rows"
        shutil.rmtree(folder, ignore_errors=True)
        start_makers(options.out, folder, options.makers, options.seed, options.tokens_a_step)
        super().__init__(rank, options)
        self._pool = Pool(folder, _capacity(options), self.device, options.seed)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._pool.close()

    def _batch(self, rows: int, length: int) -> tuple[Tensor, ...]:
        ids, positions, mask, targets, weights = expanded(self._pool.draw(length, rows))
        return ids, positions, mask, *places_of(targets, weights)

    def _step(self) -> Tensor:
        loss = super()._step()
        share = max(1 / self.progress.step, 1 / self.options.mean_of)
        with torch.no_grad():
            torch._foreach_lerp_(self._mean, list(self.model.parameters()), share)
        return loss

    def _told(self) -> dict[str, float]:
        peak = torch.cuda.max_memory_allocated() / 2**30 if self.device.type == "cuda" else 0.0
        return {**self._pool.summary(), **({"gib": round(peak, 1)} if peak else {})}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "mean": self._mean}

    def _load_checkpoint(self) -> None:
        self._mean = [p.detach().clone() for p in self.model.parameters()]
        super()._load_checkpoint()

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._mean = state["mean"]

    @torch.no_grad()
    def _save(self, loss: Tensor) -> None:
        super()._save(loss)
        held = [p.detach().clone() for p in self.model.parameters()]
        torch._foreach_copy_(list(self.model.parameters()), self._mean)
        folder = self.options.work / "mean"
        folder.mkdir(exist_ok=True)
        export(self.model, folder)
        torch._foreach_copy_(list(self.model.parameters()), held)


def _capacity(options: argparse.Namespace) -> dict[int, int]:
    """Return how many rows of each length are kept: as many of `--keep` tokens as steps are made of them, and two
    batches at least."""
    steps = [row_length(step) for step in range(16)]
    batches = {length: 2 * (options.tokens_a_step // length) for length in LENGTHS}
    return {n: max(batches[n], int(options.keep / 16 * steps.count(n) / n)) for n in LENGTHS}
