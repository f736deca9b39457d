"""Train the bundled model from scratch on generated data: `python -m training.train --minutes 60`.

Runs on two CPU cores (two processes, torch.compile); with `--makers N`, on one GPU that other processes make rows for
(`training/pooled.py`). State is kept in `--work` every few minutes, and the same command again resumes there; the
result goes to `--out`.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from training.parallel import launch
from training.pooled import PooledTrainer
from training.trainer import Trainer
from training.vocabulary import from_nothing

BUNDLED = Path(__file__).resolve().parent.parent / "engine" / "bundled"


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="wall-clock budget, evaluations included")
    parser.add_argument("--tokens", type=float, default=60e6, help="token budget; the smaller of the two ends the run")
    parser.add_argument("--out", type=Path, default=BUNDLED)
    parser.add_argument("--work", type=Path, default=Path("build/train-model"), help="checkpoints and log")
    parser.add_argument("--init", type=Path, help="continue from the weights of this folder (a new run, new schedule)")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="of one thread each, on CPU")
    parser.add_argument("--vocabulary", type=int, default=1024, help="pieces; whole words come on top")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=9)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--tokens-a-step", type=int, default=6144, help="in rows of 256, 512 or 1,024 tokens")
    parser.add_argument("--muon-lr", type=float, default=0.01)
    parser.add_argument("--adam-lr", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=0.52, help="share of the budget over which the rate falls")
    parser.add_argument("--check-every", type=float, default=5.0, help="minutes between quick scores; 0: none")
    parser.add_argument("--save-every", type=float, default=3.0, help="minutes between states that a run resumes from")
    parser.add_argument("--makers", type=int, default=0, help="processes that make rows; 0: the trainer makes its own")
    parser.add_argument("--keep", type=float, default=2e7, help="tokens of rows that are kept to be seen again")
    parser.add_argument("--mean-of", type=int, default=600, help="steps whose mean `WORK/mean` is about, with makers")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def train(rank: int, options: argparse.Namespace) -> None:
    kind = PooledTrainer if options.makers else Trainer
    kind(rank, options).run()


def prepare(options: argparse.Namespace) -> None:
    """Write tokenizer and template to `--out`, unless they are there: weights that were trained before, here or in
    `--init`, fit no other tokenizer."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "tokenizer.json").exists() and options.init is not None:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(options.init / name, out)
    if not (out / "tokenizer.json").exists():
        from_nothing(options.vocabulary, out)
    if not (out / "chat_template.jinja").exists():
        shutil.copy(BUNDLED / "chat_template.jinja", out)


def main(arguments: list[str] | None = None) -> None:
    options = parse_options(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    options.processes = 1 if options.makers else options.processes
    prepare(options)
    launch(train, options.processes, options.work, options)


if __name__ == "__main__":
    main()
