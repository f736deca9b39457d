"""Run a case of a fuzz program in a child of this process, whose time and memory are bounded."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

CPU_S, WALL_S, MEMORY_BYTES = 60, 300, 12 << 30
"""What a case may take: processor time, time, and address space, most of it libraries'."""


def in_a_child(case: Callable[[], str]) -> str:
    """Return what `case` returns in a forked child; a finding if it ends otherwise."""
    with tempfile.TemporaryFile() as kept:
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(WALL_S)
                torch.set_num_threads(1)  # a fork has none of the threads that OpenMP would wait for
                resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                kept.write(case().encode())
                kept.flush()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        kept.seek(0)
        return kept.read().decode() or f"FINDING ended with status {status}"


def kept_folder(name: str) -> Path:
    """Make a folder that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"sluicegate-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
