"""Measure the encoder that judges sameness: `python -m training.sameness.measure FOLDER [ADAPTER]`.

Prints for held-out families and for the hands that training knows nothing of how many paraphrases and near misses are
served, by wording or by the encoder, for several thresholds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from sluicegate.cache.semantic import signature
from sluicegate.cache.semantic.judged.encoder_judge import EncoderJudge
from sluicegate.cache.semantic.judged.protected import judged_digest, what_differs
from training.sameness.data import Labelled, split

THRESHOLDS = np.arange(0, 5, 0.5)


def score(judge: EncoderJudge, pair: Labelled) -> float:
    """Return a pair's score: infinite where the wordings are equal, minus infinite where rules keep the two apart."""
    one, other = signature(pair.one), signature(pair.other)
    if one is not None and one == other:
        return np.inf
    digests = [judged_digest(text, "") for text in (pair.one, pair.other)]
    apart = digests[0] != digests[1] or None in digests or what_differs(pair.one, pair.other) is not None
    return -np.inf if apart or judge.tells_apart(pair.one, pair.other) else judge.score(pair.one, pair.other)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("adapter", type=Path, nargs="?")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    judge = EncoderJudge(chosen.folder, chosen.adapter and dict(np.load(chosen.adapter)))
    _, held, hands = split()
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for pair in held + hands:
        scores.setdefault(pair.author, ([], []))[not pair.same].append(score(judge, pair))
    print(f"the adapter's own threshold: {judge.threshold:.2f}")
    for author, (same, near) in scores.items():
        print(f"{author}: {len(same)} paraphrases, {len(near)} near misses")
        for least in (*THRESHOLDS, judge.threshold):
            print(f"  from {least:.2f}: {sum(s >= least for s in same)} and {sum(s >= least for s in near)}")


if __name__ == "__main__":
    main()
