"""Trains the bundled model from nothing on generated data: `python -m training.train --minutes 60`.

Runs on two CPU cores (two processes, float32, torch.compile) or on CUDA when there is one (then `--processes 1`).
State is kept in `--work` every few minutes, and the same command again resumes there; the result goes to `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaForCausalLM

from training.evaluate import quick_score
from training.forward import answer_places, packed_loss
from training.model import CONTEXT, build_model, export
from training.muon import Muon
from training.packing import Batch, sample_batch
from training.parallel import average, launch
from training.tokenizer import save as save_tokenizer
from training.tokenizer import train_tokenizer
from training.vocabulary import DRAWN, corpus, whole_words, with_words

BUNDLED = Path(__file__).resolve().parent.parent / "engine" / "bundled"
SAVE_MINUTES = 3.0  # between resumable states: what a killed run loses at most
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


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="wall-clock budget, evaluations included")
    parser.add_argument("--tokens", type=float, default=60e6, help="token budget; the smaller of the two ends the run")
    parser.add_argument("--out", type=Path, default=BUNDLED)
    parser.add_argument("--work", type=Path, default=Path("build/train-model"), help="checkpoints and log")
    parser.add_argument("--init", type=Path, help="continue from the weights of this folder (a new run, new schedule)")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="of one thread each, on CPU")
    parser.add_argument("--vocabulary", type=int, default=1024, help="pieces; whole words come on top")
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--tokens-a-step", type=int, default=6144, help="in rows of 256, 512 or 1,024 tokens")
    parser.add_argument("--muon-lr", type=float, default=0.01)
    parser.add_argument("--adam-lr", type=float, default=4e-3)
    parser.add_argument("--new-layers", type=int, nargs="*", default=[], help="layers that `training.grow` put in")
    parser.add_argument(
        "--new-rate", type=float, default=2.0, help="how many times Muon's rate new layers are moved at"
    )
    parser.add_argument("--decay", type=float, default=0.52, help="share of the budget over which the rate falls")
    parser.add_argument("--check-every", type=float, default=5.0, help="minutes between checkpoints with a quick score")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


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
        next_check = self.progress.seconds + 60 * self.options.check_every
        saved = self.progress.seconds
        loss = 0.0
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stopped", True))
        while self.progress.share(self.options.minutes, self.options.tokens) < 1 and not self._stopped:
            loss = self._step()
            if self.progress.step % 20 == 0:
                self._log({"loss": loss})
            if self.progress.seconds > saved + 60 * SAVE_MINUTES:
                self._save()
                saved = self.progress.seconds
            if self.progress.seconds >= next_check:
                self._check(loss)
                next_check = self.progress.seconds + 60 * self.options.check_every
        if self._stopped:
            self._save()
            return
        self._check(loss)
        if self.rank == 0:
            self._finish()

    def _step(self) -> float:
        progress, options = self.progress, self.options
        length = _length(progress.step)
        rows = max(1, options.tokens_a_step // length // options.processes)
        batch = sample_batch(self.tokenizer, f"{options.seed}-{progress.step}-{self.rank}", rows, length)
        factor = _schedule(progress.step, progress.share(options.minutes, options.tokens), options.decay)
        loss = self._backward(batch)
        elapsed = time.monotonic() - self._started
        loss, progress.seconds = average(self.model.parameters(), loss, elapsed)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_lr"] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += rows * length * options.processes
        return loss

    def _backward(self, batch: Batch) -> float:
        tensors = (batch.ids, batch.positions, batch.mask, *answer_places(batch))
        loss = self._loss(*(tensor.to(self.device) for tensor in tensors))
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _model(self) -> LlamaForCausalLM:
        if self.options.init is not None:
            return LlamaForCausalLM.from_pretrained(self.options.init, dtype=torch.float32)
        return build_model(self.tokenizer, self.options.width, self.options.layers, self.options.heads)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        matrices = {name: p for name, p in self.model.named_parameters() if p.ndim == 2 and ".layers." in name}
        others = [p for name, p in self.model.named_parameters() if name not in matrices]
        new = [
            p for name, p in matrices.items() if int(name.split(".layers.")[1].split(".")[0]) in self.options.new_layers
        ]
        old = [p for p in matrices.values() if not any(p is other for other in new)]
        optimizers: list[torch.optim.Optimizer] = [
            Muon(old, lr=self.options.muon_lr),
            *([Muon(new, lr=self.options.muon_lr * self.options.new_rate)] if new else []),
            torch.optim.AdamW(others, lr=self.options.adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["peak_lr"] = group["lr"]
        return optimizers

    def _loss_function(self) -> LossFunction:
        model = self.model

        def loss(
            ids: Tensor, positions: Tensor, mask: Tensor, places: Tensor, targets: Tensor, weights: Tensor
        ) -> Tensor:
            return packed_loss(model, ids, positions, mask, places, targets, weights)

        return loss if self.options.no_compile else torch.compile(loss, dynamic=False)

    def _log(self, values: dict[str, float]) -> None:
        if self.rank:
            return
        progress = self.progress
        speed = progress.tokens / max(progress.seconds, 1e-9)
        shown = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        spent = f"tokens {progress.tokens:,}  minutes {progress.seconds / 60:.1f}  tok/s {speed:.0f}"
        print(f"step {progress.step}  {spent}  {shown}", flush=True)

    def _check(self, loss: float) -> None:
        """Take a quick score on held-out documents; write a resumable checkpoint and the current weights in `--out`."""
        if self.rank:
            return
        score = quick_score(self.model, self.tokenizer)
        entry = {
            "tokens": self.progress.tokens,
            "minutes": round(self.progress.seconds / 60, 2),
            "loss": round(loss, 4),
            **score,
        }
        self.progress.history.append(entry)
        self._log(score)
        self._save()

    def _save(self) -> None:
        """Write the resumable state, and the weights in `--out`; SIGTERM ends a run with it."""
        if self.rank:
            return
        target = self.options.work / "checkpoint.pt"
        state = {
            "model": self.model.state_dict(),
            "progress": asdict(self.progress),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(state, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)
        export(self.model, self.options.out)

    def _load_checkpoint(self) -> None:
        path = self.options.work / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        rates = [group["peak_lr"] for optimizer in self.optimizers for group in optimizer.param_groups]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["peak_lr"] = rate
        self.progress = Progress(**state["progress"])
        print(f"resumed at step {self.progress.step}", flush=True)

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
            "history": progress.history,
        }
        (self.options.work / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({name: value for name, value in summary.items() if name != "history"}), flush=True)


def _length(step: int) -> int:
    """Return how many tokens a row has: mostly few, whose attention costs least, and often enough many to be learnt."""
    return CONTEXT if step % 16 == 0 else 512 if step % 4 == 2 else 256


def _schedule(step: int, share: float, decay: float) -> float:
    """Return the share of the highest rate: a warm-up over 100 steps, flat, then a straight line to (almost) zero over
    the last `decay` of the budget."""
    return min(1.0, (step + 1) / 100, max(0.0, (1 - share) / decay) + 0.01)


def train(rank: int, options: argparse.Namespace) -> None:
    Trainer(rank, options).run()


def prepare(options: argparse.Namespace) -> None:
    """Write tokenizer and template to `--out`, unless they are there: weights that were trained before, here or in
    `--init`, fit no other tokenizer."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "tokenizer.json").exists() and options.init is not None:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(options.init / name, out)
    if not (out / "tokenizer.json").exists():
        pieces = train_tokenizer(options.vocabulary)
        save_tokenizer(with_words(pieces, whole_words(pieces, corpus(DRAWN))), out, CONTEXT)
    if not (out / "chat_template.jinja").exists():
        shutil.copy(BUNDLED / "chat_template.jinja", out)


def main(arguments: list[str] | None = None) -> None:
    options = parse_options(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    prepare(options)
    launch(train, options.processes, options.work, options)


if __name__ == "__main__":
    main()
