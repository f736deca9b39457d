"""Compute a model's version: a digest over the files that determine its answers."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Protocol

from sluicegate.engine.checkpoints.draft_heads import FILE as HEADS

_SAMPLE_BYTES = 1 << 16


class _Hash(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes, /) -> None: ...


def folder_digest(folder: Path, salt: str = "") -> str:
    """Return the first 16 hex digits of the SHA-256 over names, sizes and contents of the files that determine a
    model's answers.

    Of files larger than 16 MiB, the beginning (where safetensors keeps names, shapes and offsets) and evenly spaced
    samples stand for the contents.
    """
    digest = sha256(salt.encode())
    kinds = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*.txt")
    for path in sorted({path for kind in kinds for path in folder.glob(kind)} - {folder / HEADS}):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        _add(digest, path)
    return digest.hexdigest()[:16]


def file_digest(where: str) -> str:
    """Return a digest that distinguishes a GGUF file from others in its folder; '' for other checkpoints."""
    if not where.endswith(".gguf"):
        return ""
    digest = sha256()
    _add(digest, Path(where))
    return digest.hexdigest()


def _add(digest: _Hash, path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= 16 << 20:
            digest.update(file.read())
            return
        for at in range(0, size, max(_SAMPLE_BYTES, size // 64)):
            file.seek(at)
            digest.update(file.read(_SAMPLE_BYTES))
