"""Settings that name a file or folder: what kind it must be of, and what the gateway does with it.

    path: WrittenDatabase = ""
    weights: ReadFile = ""

While `paths_checked` is in force, `read_settings` looks at each of them on the disk, and names what is wrong: the
gateway would learn of it at the first request that needs the file, or never. Elsewhere, as in commands that need none
of them, it does not look.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

_SQLITE = b"SQLite format 3\0"
_CHECKED: ContextVar[bool] = ContextVar("paths are checked", default=False)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Marks a setting that is a path. `use`: `read`: it exists and can be read; `write`: it can be written, or made;
    `maybe`: it may be missing, and is left alone where it cannot be written. `makes_folders`: the folders above are
    made. `beside`: files are made beside a written one, as a database does. `database`: of SQLite. Empty stands for
    none."""

    kind: Literal["file", "folder"]
    use: Literal["read", "write", "maybe"] = "read"
    makes_folders: bool = True
    beside: bool = True
    database: bool = False


ReadFile = Annotated[str, OnDisk("file")]
ReadFolder = Annotated[str, OnDisk("folder")]
WrittenDatabase = Annotated[str, OnDisk("file", "write", database=True)]
PlacedFile = Annotated[str, OnDisk("file", "write", makes_folders=False)]
"""In a folder that exists."""
PlacedDatabase = Annotated[str, OnDisk("file", "write", makes_folders=False, database=True)]
WrittenFolder = Annotated[str, OnDisk("folder", "write")]
MaybeFolder = Annotated[str, OnDisk("folder", "maybe")]


@contextmanager
def paths_checked() -> Iterator[None]:
    """Look at the paths of all settings that are read inside the block."""
    token = _CHECKED.set(True)
    try:
        yield
    finally:
        _CHECKED.reset(token)


def are_checked() -> bool:
    """Return whether `paths_checked` is in force."""
    return _CHECKED.get()


def wanted_of(mark: OnDisk) -> str:
    """Return what the path must be, in words."""
    kind = f"a {mark.kind}"
    return {
        "read": f"{kind} that exists and can be read",
        "write": f"{kind} that can be written",
        "maybe": f"{kind}, or none yet",
    }[mark.use]


def fault_of_path(text: str, mark: OnDisk) -> str:
    """Return why `text` cannot be what `mark` asks for; empty where it can."""
    if "\0" in text:
        return "it holds a zero byte"
    try:
        return _fault(Path(text).expanduser() if mark.use == "maybe" else Path(text), mark)
    except OSError as error:
        return _reason(error)
    except RuntimeError:  # of `expanduser`
        return "there is no such user"


def unwritable(folder: Path) -> str:
    """Return why the disk of a folder takes no writes; empty where it does, or this user may make nothing there anyway.

    It is written to, a file without a name: a disk that turned read-only after an error is still called writable by the
    kernel, and by everything but a write."""
    if not hasattr(os, "O_TMPFILE"):
        flags = os.statvfs(folder).f_flag if os.name == "posix" else 0
        return os.strerror(errno.EROFS).lower() if flags & getattr(os, "ST_RDONLY", 0) else ""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return _reason(error) if error.errno in (errno.EROFS, errno.EIO) else ""
    return ""


def _fault(path: Path, mark: OnDisk) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return "" if mark.use == "maybe" else "there is none" if mark.use == "read" else _unmade(path, mark)
    if stat.S_ISDIR(found.st_mode) != (mark.kind == "folder"):
        return "it is a folder" if mark.kind == "file" else "it is no folder"
    if mark.use == "write" and mark.kind == "file" and not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):  # to open one may wait for ever
        return "it is a pipe or a socket"
    if mark.use == "maybe":
        return ""
    why = _refused(path, mark.use == "write", mark.kind == "folder")
    if not why and mark.use == "write" and mark.kind == "file" and mark.beside:
        why = _unmakeable(path.parent)
    return why or ("it is a text, no database of SQLite" if mark.database and _holds_text(path) else "")


def _holds_text(path: Path) -> bool:
    """Return whether a file begins as a text does, in ASCII. A database that was damaged does not."""
    with path.open("rb") as opened:
        head = opened.read(256)
    return bool(head) and not head.startswith(_SQLITE) and all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head)


def _unmade(path: Path, mark: OnDisk) -> str:
    """Return why a path that is not there could not be made."""
    if path.is_symlink():
        return "it is a link that leads nowhere"
    above = path.parent
    if not mark.makes_folders and not above.is_dir():
        return f"there is no folder {str(above)!r}"
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        return f"{str(above)!r} is no folder"
    return _unmakeable(above)


def _unmakeable(folder: Path) -> str:
    why = _refused(folder, True, True)
    return f"in {str(folder)!r} nothing can be made: {why}" if why else ""


def _refused(path: Path, written: bool, is_folder: bool) -> str:
    """Return why this user may not use what is there."""
    if written and (why := unwritable(path if is_folder else path.parent)):
        return why
    wanted = os.R_OK | (os.W_OK if written else 0) | (os.X_OK if is_folder else 0)
    effective = os.access in os.supports_effective_ids
    return "" if os.access(path, wanted, effective_ids=effective) else os.strerror(errno.EACCES).lower()


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
