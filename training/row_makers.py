"""Processes that make rows ahead of a trainer that is faster than one core, and leave them in a folder as files.

Every file is one batch of one length, named `LENGTH-MAKER-NUMBER.npy`; who reads it removes it. Makers stop when nobody
reads for a while, and end with the process that started them.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

WAITING = 256  # files that nobody has read: enough for now
_NICER = 5  # than the trainer, which must never wait for a core


def start_makers(tokenizer_folder: Path, folder: Path, makers: int, seed: int, tokens: int) -> list[BaseProcess]:
    """Start so many processes; each file has about `tokens` tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    work = (tokenizer_folder, folder, seed, tokens, os.getpid())
    processes = [context.Process(target=_make, args=(number, *work), daemon=True) for number in range(makers)]
    for process in processes:
        process.start()
    return list(processes)


def _make(maker: int, tokenizer_folder: Path, folder: Path, seed: int, tokens: int, parent: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.nice(_NICER)
    from transformers import AutoTokenizer

    from training.packing import row_length, sample_rows
    from training.rows import compact, write_rows

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    # A run that is begun again draws other rows.
    draw, number = f"{seed}-{maker}-{time.time_ns()}", maker * 5
    while os.getppid() == parent:
        if sum(1 for _ in folder.iterdir()) > WAITING:
            time.sleep(0.2)
            continue
        length = row_length(number)
        rows = sample_rows(tokenizer, f"{draw}-{number}", max(1, tokens // length), length)
        write_rows(compact(rows, tokenizer.pad_token_id), folder / f"{length}-{maker}-{number}.npy")
        number += 1
