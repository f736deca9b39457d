"""The loop of a training run: a step, the log, and the states that it goes on from."""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaForCausalLM

from training.forward import WHOLE, Parts, answer_places, packed_loss
from training.model import build_model, export
from training.muon import Muon
from training.packing import row_length, sample_batch
from training.parallel import average

_LOG_SECONDS = 10.0
LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass
class Progress:
    """What a resumed run needs besides weights and optimisers."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def share(self, minutes: float, tokens: float) -> float:
        """Return how much of the budget is used, by whichever of the two runs out first (a falling budget may exceed
        1)."""
        return max(self.seconds / (60 * minutes), self.tokens / tokens)


class Trainer:
    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        self.rank = rank
        self.options = options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.set_num_threads(1)
        torch.manual_seed(options.seed)
        self.tokenizer = AutoTokenizer.from_pretrained(options.out)
        self.model = self._model().to(self.device)
        self.optimizers = self._optimizers()
        self.progress = Progress()
        self._load_checkpoint()
        self._loss = self._loss_function()
        self._stopped = False
        self._started = time.monotonic() - self.progress.seconds

    def run(self) -> None:
        checked = saved = logged = self.progress.seconds
        loss = torch.zeros(())
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stopped", True))
        while self.progress.share(self.options.minutes, self.options.tokens) < 1 and not self._stopped:
            loss = self._step()
            now = self.progress.seconds
            if now > logged + _LOG_SECONDS:
                self._log({"loss": _finite(loss)})
                logged = now
            if now > saved + 60 * self.options.save_every:
                self._save(loss)
                saved = now
            if self.options.check_every and now >= checked + 60 * self.options.check_every:
                self._check(loss)
                checked = now
        if self._stopped:
            self._save(loss)
            return
        if self.options.check_every:
            self._check(loss)
        else:
            self._save(loss)
        if self.rank == 0:
            self._finish()

    def _step(self) -> Tensor:
        progress, options = self.progress, self.options
        length = row_length(progress.step)
        rows = max(1, options.tokens_a_step // length // options.processes)
        factor = _schedule(progress.step, progress.share(options.minutes, options.tokens), options.decay)
        loss = self._loss(*self._batch(rows, length))
        loss.backward()  # type: ignore[no-untyped-call]
        progress.seconds = time.monotonic() - self._started
        if options.processes > 1:
            [progress.seconds] = average(self.model.parameters(), progress.seconds)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_lr"] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += rows * length * options.processes
        return loss.detach()

    def _batch(self, rows: int, length: int) -> tuple[Tensor, ...]:
        """Return the arguments of `packed_loss` for a fresh batch of rows, on the device."""
        seed = f"{self.options.seed}-{self.progress.step}-{self.rank}"
        batch = sample_batch(self.tokenizer, seed, rows, length)
        tensors = (batch.ids, batch.positions, batch.mask, *answer_places(batch))
        return tuple(tensor.to(self.device) for tensor in tensors)

    def _model(self) -> LlamaForCausalLM:
        if self.options.init is not None:
            return LlamaForCausalLM.from_pretrained(self.options.init, dtype=torch.float32)
        return build_model(self.tokenizer, self.options.width, self.options.layers, self.options.heads)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        matrices = [p for name, p in self.model.named_parameters() if p.ndim == 2 and ".layers." in name]
        others = [p for p in self.model.parameters() if not any(p is other for other in matrices)]
        optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, lr=self.options.muon_lr),
            torch.optim.AdamW(others, lr=self.options.adam_lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
        ]
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["peak_lr"] = group["lr"]
        return optimizers

    def _loss_function(self) -> LossFunction:
        model = self.model

        on_cuda = self.device.type == "cuda"
        parts = Parts.on_cuda(not self.options.no_compile) if on_cuda else WHOLE

        def loss(
            ids: Tensor, positions: Tensor, mask: Tensor, places: Tensor, targets: Tensor, weights: Tensor
        ) -> Tensor:
            return packed_loss(model, ids, positions, mask, places, targets, weights, parts)

        return loss if self.options.no_compile or on_cuda else torch.compile(loss, dynamic=False)

    def _log(self, values: dict[str, float]) -> None:
        if self.rank:
            return
        progress = self.progress
        speed = progress.tokens / max(progress.seconds, 1e-9)
        shown = "  ".join(f"{name} {value:.4f}" for name, value in (values | self._told()).items())
        spent = f"tokens {progress.tokens:,}  minutes {progress.seconds / 60:.1f}  tok/s {speed:.0f}"
        print(f"step {progress.step}  {spent}  {shown}", flush=True)

    def _told(self) -> dict[str, float]:
        """Return additional numbers for the log and the summary."""
        return {}

    def _check(self, loss: Tensor) -> None:
        """Take a quick score on held-out documents; write a resumable checkpoint and the current weights in `--out`.
        Raises as `_save`."""
        number = _finite(loss)
        if self.rank:
            return
        from training.evaluate import quick_score  # needs more of the product than training does

        score = quick_score(self.model, self.tokenizer)
        entry = {
            "tokens": self.progress.tokens,
            "minutes": round(self.progress.seconds / 60, 2),
            "loss": round(number, 4),
            **score,
        }
        self.progress.history.append(entry)
        self._log(score)
        self._save(loss)

    def _save(self, loss: Tensor) -> None:
        """Write the resumable state, and the weights in `--out`; SIGTERM ends a run with it. Raises
        `FloatingPointError` where `loss`, that of the last step, is no number."""
        _finite(loss)
        if self.rank:
            return
        target = self.options.work / "checkpoint.pt"
        torch.save(self._state(), target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)
        export(self.model, self.options.out)

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "progress": asdict(self.progress),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }

    def _load_checkpoint(self) -> None:
        path = self.options.work / "checkpoint.pt"
        if not path.exists():
            return
        self._restore(torch.load(path, map_location=self.device, weights_only=True))
        print(f"resumed at step {self.progress.step}", flush=True)

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        rates = [group["peak_lr"] for optimizer in self.optimizers for group in optimizer.param_groups]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["peak_lr"] = rate
        self.progress = Progress(**state["progress"])

    def _finish(self) -> None:
        progress = self.progress
        summary = {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "steps": progress.step,
            "tokens": progress.tokens,
            "minutes": round(progress.seconds / 60, 1),
            "tokens_per_second": round(progress.tokens / progress.seconds),
            "device": str(self.device),
            "processes": self.options.processes,
            "torch": torch.__version__,
            **self._told(),
            "history": progress.history,
        }
        (self.options.work / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({name: value for name, value in summary.items() if name != "history"}), flush=True)


def _finite(loss: Tensor) -> float:
    """Return the loss as a number. Raises `FloatingPointError` where it is none."""
    number = float(loss)
    if not math.isfinite(number):
        raise FloatingPointError(f"the loss is {number}: begin again from the last state, at a lower rate")
    return number


def _schedule(step: int, share: float, decay: float) -> float:
    """Return the share of the highest rate: a warm-up over 100 steps, flat, then a straight line to (almost) zero over
    the last `decay` of the budget."""
    return min(1.0, (step + 1) / 100, max(0.0, (1 - share) / decay) + 0.01)
