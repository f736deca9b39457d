"""Run a case of a fuzz program in a child of this process, whose processor time and memory are bounded."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable

CPU_S, MEMORY_BYTES = 60, 12 << 30
"""What a case may take: processor time, and address space, most of it libraries'."""


def in_a_child(case: Callable[[], str]) -> str:
    """Return what `case` returns in a forked child; a finding if it ends otherwise."""
    with tempfile.TemporaryFile() as kept:
        child = os.fork()
        if child == 0:
            try:
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
