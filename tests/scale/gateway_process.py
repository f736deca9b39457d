"""A gateway as `sluicegate serve` runs it, but for its model, which says words at a steady pace, and its clock, which
is so many seconds ahead: `CONFIG.toml SECONDS`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.server import serve_runtime
from sluicegate.plugins import RegistryLike
from sluicegate.plugins.testing import ScriptedModel, Unconstrained

WORDS = 12
PACE_S = 0.05


def register(registry: RegistryLike) -> None:
    registry.add("constrain", "unconstrained", lambda settings: Unconstrained())
    registry.add("generate", "paced", lambda settings: ScriptedModel(["word "] * WORDS, delay_s=PACE_S))


def move_clock(ahead_s: float) -> None:
    """Move what asks `time.time()`. Waiting goes by another clock."""
    real = time.time
    vars(time)["time"] = lambda: real() + ahead_s


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # where it stands, into its log
    move_clock(float(sys.argv[2]))
    sys.exit(serve_runtime(compose(load(Path(sys.argv[1])), os.environ, registers=(register,))))
