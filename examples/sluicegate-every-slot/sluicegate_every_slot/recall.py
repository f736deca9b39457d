"""Slot `recall`: answers as JSON files, which survive a restart.

Not covered: a bound on the folder's size, and answers with log probabilities, which are not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from sluicegate.plugins import Answer, CacheKey


class Files:
    """A file that cannot be read or written is counted and otherwise as good as none: a cache never fails a request."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._errors = 0

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        return await asyncio.to_thread(self._read, self._path(key))

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        if not any(answer.logprobs for answer in answers):
            await asyncio.to_thread(self._write, self._path(key), answers)

    def stats(self) -> Mapping[str, float]:
        return {"errors_total": float(self._errors)}

    def _path(self, key: CacheKey) -> Path:
        """Return the path of an entry. The tenant is part of the name: nobody is given what another was answered."""
        name = "\0".join((key.tenant, key.model, key.digest))
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"

    def _read(self, path: Path) -> tuple[Answer, ...] | None:
        try:
            found = json.loads(path.read_text("utf-8"))
            return tuple(Answer(i, choice["text"], choice["finish_reason"]) for i, choice in enumerate(found))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            self._errors += 1
            return None

    def _write(self, path: Path, answers: tuple[Answer, ...]) -> None:
        kept = [{"text": answer.text, "finish_reason": answer.finish_reason} for answer in answers]
        draft = path.with_suffix(f".{uuid4().hex}")  # moved into place whole: a reader never sees half a file
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(kept), "utf-8")
            os.replace(draft, path)
        except OSError:
            self._errors += 1
