"""Files that only the gateway's user may read."""

from __future__ import annotations

from pathlib import Path


def make_private(path: Path) -> None:
    """Make an empty file with the folders above it, for this user alone. What exists is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
