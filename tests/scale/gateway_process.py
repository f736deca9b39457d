"""A gateway as `sluicegate serve` runs it, but for its model, which says words at a steady pace: `CONFIG.toml`."""

from __future__ import annotations

import os
import sys
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


if __name__ == "__main__":
    sys.exit(serve_runtime(compose(load(Path(sys.argv[1])), os.environ, registers=(register,))))
