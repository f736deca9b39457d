"""Sentences made of the templates of intents: every wording of every bracket once, with plain words in the gaps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluicegate.cache.semantic.wording.intents import FILES, FOLDER, PIECE

WORDS = {
    "X": "blue lamp", "Y": "old garden", "Z": "tall wall", "W": "python",
    "V": "install", "G": "installing", "D": "installed",
}  # fmt: skip
Group = tuple[str, list[str]]


def groups() -> Iterator[Group]:
    """Yield the head of each group and its templates, with words in place of gaps and the first word of a class."""
    for name in FILES:
        classes: dict[str, str] = {}
        head, templates = "", []
        for line in [*FOLDER.joinpath(f"{name}.txt").read_text("utf-8").splitlines(), "> "]:
            if line.startswith("@ "):
                label, _, words = line[2:].partition(" = ")
                classes[label] = words.split()[0]
            elif line.startswith("> "):
                if head:
                    yield head, templates
                head, templates = _filled(line[2:], classes), []
            elif line and not line.startswith("#"):
                templates.append(_filled(line, classes))


def _filled(line: str, classes: dict[str, str]) -> str:
    line = re.sub(r"\{(\w+)\}", lambda found: classes[found[1]], line)
    return re.sub(r"\b[VWXYZGD]\b", lambda found: WORDS[found[0]], line)


def sentences(template: str) -> list[str]:
    """Return sentences that together use each alternative of each bracket."""
    parts = _parts(PIECE.findall(template))
    longest = max((len(part) for part in parts), default=1)
    made = {_joined([part[min(at, len(part) - 1)] for part in parts]) for at in range(longest)}
    return sorted(made)


def _parts(pieces: list[str]) -> list[list[str]]:
    """Return the alternatives of each part of a template; a nested bracket is read as its first alternative."""
    parts: list[list[str]] = []
    at = 0
    while at < len(pieces):
        if pieces[at] in "([":
            found, at = _alternatives(pieces, at)
            parts.append(found)
        else:
            parts.append([pieces[at]])
            at += 1
    return parts


def _alternatives(pieces: list[str], at: int) -> tuple[list[str], int]:
    opening, found, at = pieces[at], [""], at + 1
    while pieces[at] not in ")]":
        if pieces[at] in "([":
            inner, at = _alternatives(pieces, at)
            found[-1] = _joined([found[-1], inner[0]])
            continue
        found = [*found, ""] if pieces[at] == "|" else [*found[:-1], _joined([found[-1], pieces[at]])]
        at += 1
    return (found if opening == "(" else [*found, ""]), at + 1


def _joined(parts: list[str]) -> str:
    return re.sub(r" (?=[,:.])", "", " ".join(part for part in parts if part))
