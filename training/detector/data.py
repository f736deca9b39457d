"""The evaluation sets as examples, and which of them must stay on one side of a split.

Sets are gzipped JSON lines, one file a set, named after it (`harm_xstest_*.jsonl.gz`); the README beside them gives
origins and licences. Their text is read here and goes nowhere but into hashed weights.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

INJECTION = ("jailbreak_inthewild", "injection_cse_en", "injection_cse_multilingual", "prompt_leak")
BENIGN = ("benign_notinject", "benign_wildguard", "benign_cyber_frr")
HARM = ("harm_harmbench_standard", "harm_xstest")
DOCUMENT = ("indirect_bipia_email",)
NOT_TRAINED_ON = ("indirect_bipia_table_code_ccbysa",)
"""Share-alike licence: measured, never trained on."""
PROSE = ("harm_openai_moderation", "output_xstest_mistral")
INSTRUCTIONS = ("benign_instructions",)
"""Of those made from templates only the template's own words are trained on (`wording`): the passages in them belong to
many data sets, each under a licence of its own."""

SETS = (*INJECTION, *BENIGN, *INSTRUCTIONS, *HARM, *DOCUMENT, *NOT_TRAINED_ON, *PROSE)


@dataclass(frozen=True, slots=True)
class Example:
    """`bad`: an attack or a harmful request. `group`: what never stands on both sides of a split. In documents `span`
    is the planted instruction, `family` its kind and `context` the document without it.
    `template`: of a task, what it was made from."""

    set: str
    id: str
    text: str
    bad: bool
    group: str
    span: tuple[int, int] | None = None
    family: str = ""
    context: str = ""
    template: str = ""

    @property
    def kind(self) -> str:
        """Return the name under which results are reported."""
        if self.set in INSTRUCTIONS:
            return f"{self.set}_tasks" if self.template else f"{self.set}_tools"
        return f"indirect_bipia_{self.group.split('/')[0]}" if self.set.startswith("indirect") else self.set


def load(folder: Path) -> dict[str, list[Example]]:
    """Return set -> examples; a set without a file is left out. Raises `SystemExit` where there is none at all."""
    found = {name: path for name in SETS for path in sorted(folder.glob(f"{name}_*.jsonl.gz"))}
    if not found:
        raise SystemExit(f"no evaluation sets at {folder}; name the folder with --data")
    sets = {name: [_example(name, row) for row in _rows(path)] for name, path in found.items()}
    return _grouped(sets)


def fingerprint(sets: dict[str, list[Example]]) -> str:
    """Return a digest that tells one collection of sets from another."""
    digest = hashlib.sha256()
    for example in sorted(f"{e.set}\0{e.id}\0{e.text}" for examples in sets.values() for e in examples):
        digest.update(example.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def key(text: str) -> str:
    """Return a key that is equal for texts that differ in case and punctuation only."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _example(name: str, row: dict[str, Any]) -> Example:
    bad = row["label"] in ("attack", "unsafe")
    if name.startswith("indirect"):
        return _document(name, row, bad)
    group = row.get("english_id") or (f"{name}/{row['focus']}" if row.get("focus") else row["id"])
    template = row["category"] if name in INSTRUCTIONS and row["category"].startswith("task:") else ""
    return Example(name, row["id"], row["text"], bad, template or group, template=template)


def _document(name: str, row: dict[str, Any], bad: bool) -> Example:
    parts = row["category"].split("/")
    span = tuple(row["attack_span"]) if bad else None
    text = row["text"]
    bare = text[: span[0]] + text[span[1] :] if span else text
    context = f"{parts[1]}/{hashlib.sha1(key(bare)[:120].encode()).hexdigest()[:12]}"
    return Example(name, row["id"], text, bad, context, span, parts[-1] if bad else "", context)


def _grouped(sets: dict[str, list[Example]]) -> dict[str, list[Example]]:
    """Join near-duplicates (five-word shingles, Jaccard 0.4) to one group, on top of what the sets declare."""
    texts = [e for name, examples in sets.items() if not name.startswith("indirect") for e in examples]
    joined = _join([e.group for e in texts], near_duplicates([e.text for e in texts]))
    renamed = {(e.set, e.id): group for e, group in zip(texts, joined, strict=True)}
    return {name: [_with_group(e, renamed.get((e.set, e.id), e.group)) for e in es] for name, es in sets.items()}


def _with_group(e: Example, group: str) -> Example:
    return replace(e, group=group)


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of texts that share two fifths of their five-word shingles."""
    runs = [shingles(text) for text in texts]
    holders: dict[int, list[int]] = defaultdict(list)
    for i, found in enumerate(runs):
        for shingle in sorted(found)[:64]:
            holders[shingle].append(i)
    pairs = {(holder[0], other) for holder in holders.values() for other in holder[1:]}
    return [(a, b) for a, b in sorted(pairs) if _alike(runs[a], runs[b])]


def shingles(text: str) -> frozenset[int]:
    """Return a digest of each run of five words of `text`, in lower case; of all its words where they are fewer."""
    words = re.findall(r"\w+", text.lower())
    runs = [words[i : i + 5] for i in range(max(len(words) - 4, 1))]
    return frozenset(int.from_bytes(hashlib.md5(" ".join(run).encode()).digest()[:8]) for run in runs)


def _alike(a: frozenset[int], b: frozenset[int]) -> bool:
    return len(a & b) >= 0.4 * len(a | b)


def _join(groups: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Make one group of those that a pair connects."""
    leader: dict[str, str] = {}

    def find(group: str) -> str:
        while leader.get(group, group) != group:
            group = leader[group]
        return group

    for a, b in pairs:
        leader[find(groups[b])] = find(groups[a])
    return [find(group) for group in groups]
