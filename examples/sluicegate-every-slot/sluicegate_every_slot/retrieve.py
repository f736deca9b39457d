"""Slot `retrieve`: the notes of a folder that share words with the question."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from sluicegate.plugins import Caller, Document, Request, question_of

_WORD = re.compile(r"\w{3,}")


class Notes:
    """Paragraphs of the folder's `*.md` files, most shared words first. Everybody may read them: for notes of one
    tenant, look at `caller.tenant`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    async def retrieve(self, request: Request, caller: Caller) -> list[Document]:
        return await asyncio.to_thread(self._found, _words(question_of(request)))

    def _found(self, asked: set[str]) -> list[Document]:
        """Read the files anew, so that a changed note counts at once. Raises `OSError` where they cannot be read."""
        found = [
            Document(text, path.name, float(len(asked & _words(text))))
            for path in sorted(self._folder.glob("*.md"))
            for text in path.read_text("utf-8").split("\n\n")
            if text.strip() and asked & _words(text)
        ]
        return sorted(found, key=lambda one: -one.score)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
