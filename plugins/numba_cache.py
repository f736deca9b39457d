"""What numba keeps of compiled loops on disk, thrown away where it may be of older source.

numba looks at the file of the function that was called, not at those of the functions that this one calls: after an
update in which only the latter changed, the old code would go on running. So a package notes a digest of all its
files that speak of numba beside what was compiled, and forgets the latter where the digest is another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

log = logging.getLogger("sluicegate.compiled")
_NOTE = "compiled-from.digest"


def forget_stale(folder: Path) -> int:
    """Remove compiled loops below `folder`, a package, unless they are of its source as it is now; returns how many
    files went. To be called before any of the loops is. A folder that cannot be written is left as it is."""
    digest = _digest(folder)
    note = folder / "__pycache__" / _NOTE
    with suppress(OSError):
        if note.read_text() == digest:
            return 0
    gone = 0
    kept = list(_kept(folder))
    try:
        for file in kept:
            file.unlink(missing_ok=True)
            gone += 1
        note.parent.mkdir(exist_ok=True)
        note.write_text(digest)
    except OSError as error:
        if kept:
            log.warning("compiled loops of %s may be of older source, remove them: %s", folder.name, error)
    if gone:
        log.info("%s: source has changed, its loops will be compiled again", folder.name)
    return gone


def _digest(folder: Path) -> str:
    found = blake2b(digest_size=16)
    for file in sorted(folder.rglob("*.py")):
        text = file.read_bytes()
        if b"numba" in text:
            found.update(str(file.relative_to(folder)).encode() + b"\0" + text)
    return found.hexdigest()


def _kept(folder: Path) -> Iterator[Path]:
    """Indices first: without them nothing else is found."""
    yield from folder.rglob("__pycache__/*.nbi")
    yield from folder.rglob("__pycache__/*.nbc")
