"""Say where things are kept that outlive the process, and whether a folder can be believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

ENV = "SLUICEGATE_CACHE_DIR"


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$SLUICEGATE_CACHE_DIR`, else `sluicegate` in the user's folder for caches (XDG)."""
    if environ.get(ENV):
        return Path(environ[ENV])
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "sluicegate"


def others_can_write(found: os.stat_result, *, trusts_root: bool = False) -> bool:
    """Whether others than this user can change a file or folder; `trusts_root`: root's own count as this user's."""
    if os.name != "posix":
        return False
    owners = {os.geteuid(), 0} if trusts_root else {os.geteuid()}
    return found.st_uid not in owners or bool(stat.S_IMODE(found.st_mode) & 0o022)
