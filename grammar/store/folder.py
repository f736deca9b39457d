"""The folder of arrays that outlive the process; what is there is never believed without a look."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.limits import MOST_BYTES
from sluicegate.plugins.cache_folder import CacheFolder

Arrays = dict[str, npt.NDArray[Any]]


class Folder(CacheFolder):
    """Files of an `.npz` each, without pickles."""

    kind = "arrays"
    what = "tables of grammars"
    log = logging.getLogger("sluicegate.grammar")

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(path, most_bytes)

    def read(self, name: str) -> Arrays | None:
        """Return the arrays kept under `name`. None where nothing usable is kept."""
        body = self.read_bytes(name)
        if body is None:
            return None
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as found:
                return {key: found[key] for key in found.files}
        except (ValueError, OSError, KeyError, EOFError):
            self.discard(name, "is damaged")
            return None

    def write(self, name: str, arrays: Arrays) -> bool:
        """Keep `arrays` under `name`. Returns False, with a log line, where they cannot be kept."""
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **arrays)
        return self.write_bytes(name, body.getvalue())
