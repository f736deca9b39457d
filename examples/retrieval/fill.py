"""Put the paragraphs of a folder's Markdown files into a vector set: `python fill.py FOLDER [URL]`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from sluicegate.gateway.retrieval.settings import VectorSetSettings
from sluicegate.gateway.retrieval.vector_set import VectorSetRetriever
from sluicegate.plugins import Document

SHORTEST = 40
"""Characters; headings and the like say little by themselves."""


def paragraphs(folder: Path) -> Iterator[Document]:
    for path in sorted(folder.rglob("*.md")):
        for text in path.read_text("utf-8").split("\n\n"):
            if len(text.strip()) >= SHORTEST:
                yield Document(text.strip(), path.relative_to(folder).as_posix())


async def fill(folder: Path, url: str) -> int:
    notes = VectorSetRetriever(VectorSetSettings(url=url, key="notes"))
    await notes.start()
    try:
        return await notes.put(paragraphs(folder))
    finally:
        await notes.close()


if __name__ == "__main__":
    where = sys.argv[2] if len(sys.argv) > 2 else "redis://127.0.0.1:6379/0"
    print(f"{asyncio.run(fill(Path(sys.argv[1]), where))} paragraphs")
