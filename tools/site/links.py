"""Links of a page, for where it stands in the site."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
DOCS = "docs/"


def moved(text: str, source: str, page: str, pages: Mapping[str, str]) -> str:
    """Return `text` of the file `source` of the repository with its links as the page `page` of the site needs them.

    `pages`: pages of the site by the file of the repository that each is made of, besides those under `docs/`. What the
    site does not have (a source file, a folder) is no link there: its words stay.
    """
    parts, start = [], 0
    for block in BLOCK.finditer(text):
        parts += [_relinked(text[start : block.start()], source, page, pages), block.group()]
        start = block.end()
    return "".join([*parts, _relinked(text[start:], source, page, pages)])


def _relinked(prose: str, source: str, page: str, pages: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        shown, words, link = found.groups()
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not target:
            return found.group()
        place = _page_of(posixpath.normpath(str(PurePosixPath(source).parent / target)), pages)
        if place is None:
            return words
        relative = os.path.relpath(place, PurePosixPath(page).parent)
        return f"{shown}[{words}]({relative}{'#' if anchor else ''}{anchor})"

    return LINK.sub(one, prose)


def _page_of(file: str, pages: Mapping[str, str]) -> str | None:
    if file in pages:
        return pages[file]
    if not file.startswith(DOCS):
        return None
    inside = file.removeprefix(DOCS)
    return inside if PurePosixPath(inside).suffix else f"{inside}/README.md"
