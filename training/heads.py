"""Trains draft heads for a model that `training.train` made: `python -m training.heads --minutes 6`.

The model stays as it is; its hidden states on generated examples teach each head what comes one more token later. The
result is `heads.safetensors` in the model's folder, which the engine finds there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoTokenizer, LlamaForCausalLM

from sluicegate.engine.checkpoints.draft_heads import DraftHeads, load_heads
from training.packing import IGNORED, Batch, sample_batch
from training.train import BUNDLED


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=BUNDLED, help="the folder of the model; the heads go there too")
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--out", type=Path, help="another folder for the heads")
    parser.add_argument("--more", action="store_true", help="go on from the heads that lie there")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--rows", type=int, default=8, help="rows of 512 tokens in a batch")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


class HeadTrainer:
    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.tokenizer = AutoTokenizer.from_pretrained(options.model)
        self.model = LlamaForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval().requires_grad_(False)
        self.heads = self._heads()
        self.optimizer = torch.optim.AdamW(self.heads.parameters(), lr=options.lr, betas=(0.9, 0.98), weight_decay=0.0)
        self.started = time.monotonic()

    def _heads(self) -> DraftHeads:
        if self.options.more and (found := load_heads(self.folder, self.model)) is not None:
            return found.float().requires_grad_(True)
        return DraftHeads(self.options.heads, self.model.config.hidden_size)

    @property
    def folder(self) -> Path:
        found: Path = self.options.out or self.options.model
        return found

    @property
    def share(self) -> float:
        """Return the share of the time that is over."""
        return (time.monotonic() - self.started) / (60 * float(self.options.minutes))

    def run(self) -> None:
        step = 0
        while self.share < 1:
            batch = sample_batch(self.tokenizer, f"heads-{self.options.seed}-{step}", self.options.rows, 512)
            loss = self.step(batch)
            if step % 50 == 0:
                right = " ".join(f"{share:.3f}" for share in self.right(batch))
                print(f"step {step}  share {self.share:.2f}  loss {loss:.3f}  right by head: {right}", flush=True)
            step += 1
        self.heads.save(self.folder)

    def step(self, batch: Batch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.lr * max(0.02, min(1.0, 2 * (1 - self.share)))
        logits, targets = self.guesses(batch)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.detach())

    def guesses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return (logits [N, k, V], what they should say [N, k]) at the N places from which an answer's token is
        drawn."""
        with torch.no_grad():
            states = self.model.model(
                input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask, use_cache=False
            ).last_hidden_state
        places = batch.targets != IGNORED
        known = later_targets(batch.targets, self.heads.count)[places]
        before = torch.cat([batch.targets[places][:, None], known[:, :-1]], 1).clamp_min(
            0
        )  # after the end: not counted
        found = self.heads(states[places], self.model.model.embed_tokens.weight[before])
        return found @ self.model.lm_head.weight.T, known

    @torch.no_grad()
    def right(self, batch: Batch) -> list[float]:
        logits, targets = self.guesses(batch)
        known = targets != IGNORED
        shares: list[float] = ((logits.argmax(-1) == targets) & known).sum(0).div(known.sum(0).clamp_min(1)).tolist()
        return shares


def later_targets(targets: Tensor, count: int) -> Tensor:
    """Return the target 1 .. `count` places later, as long as the answer goes on; else IGNORED: [B, T] -> [B, T,
    count]."""
    found, goes_on = [], targets != IGNORED
    for ahead in range(1, count + 1):
        later = F.pad(targets[:, ahead:], (0, ahead), value=IGNORED)
        goes_on = goes_on & (later != IGNORED)
        found.append(later.masked_fill(~goes_on, IGNORED))
    return torch.stack(found, -1)


def main(arguments: list[str] | None = None) -> None:
    HeadTrainer(parse_options(arguments)).run()


if __name__ == "__main__":
    main()
