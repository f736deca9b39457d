"""The folder of compiled functions."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from sluicegate.plugins.cache_folder import CacheFolder, default_folder

MOST_BYTES = 512 << 20


def compiled_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `compiled` in `$NUMBA_CACHE_DIR`, else in the folder that all caches are in."""
    if given := environ.get("NUMBA_CACHE_DIR"):
        return Path(given) / "compiled"
    return default_folder(environ) / "compiled"


class CompiledFolder(CacheFolder):
    kind = "compiled"
    what = "compiled loops"
    made = "compiled"
    log = logging.getLogger("sluicegate.compiled")

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(path, most_bytes)
