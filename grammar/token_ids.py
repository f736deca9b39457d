"""Arrays of token numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
NO_IDS: I32 = np.empty(0, np.int32)


def join(parts: list[I32]) -> I32:
    """Return all of `parts` in one array, which may be the only one of them."""
    if not parts:
        return NO_IDS
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
