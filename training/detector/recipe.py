"""Gathers what each head learns from: the sets, generated texts, whole lines, texts of other authors.

A generated text that equals a text of the sets is dropped, so that no fold is tested on what its rivals were made of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluicegate.safety.detection.classifier import HEADS
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
    requests,
    shares,
    wording,
)
from training.detector.data import Example
from training.detector.fit import Row, concept_row, once_row, segment_rows, text_row, window_rows
from training.detector.material import Item, Material
from training.detector.phrases import wider
from training.detector.published import NOTHING_PUBLISHED, Published

Reader = Callable[[str, bool, float], Row]


@dataclass(frozen=True, slots=True)
class Own:
    """Harmless texts that stand in no set. `requests`: (kind, text). `wordings`: (an example of the template, its words
    with passages of ours)."""

    foreign: list[str]
    passages: list[str]
    requests: list[tuple[str, str]]
    wordings: list[tuple[Example, str]]


def gather(sets: dict[str, list[Example]], folders: Sequence[Path], others: Published = NOTHING_PUBLISHED) -> Material:
    """Gather what each head learns from. `folders` hold message catalogues (see `catalogues`); there may be none.
    `others` are for head `injection` alone."""
    rng = random.Random(shares.SEED)
    known = {data.key(e.text) for name, examples in sets.items() if not name.startswith("indirect") for e in examples}
    own = _own(sets, folders, rng, shares.REQUESTS)
    makers = {"injection": _injection, "document": _document, "harm": _harm}
    items = {head: makers[head](sets, own, rng, known) for head in HEADS}
    measured = [e.text for name in (*data.INJECTION, *data.BENIGN) for e in sets.get(name, ())]
    attacks, near = (attack_packages.unmeasured(found, measured) for found in (others.attacks, others.near))
    others = replace(others, attacks=attacks, near=near)
    items["injection"] += _published(others, known, text_row, shares.FIRST_PACKAGE_WEIGHT)
    with wider():
        concepts = _concepts(sets, folders, known)
        concepts += _published(others, known, concept_row, shares.PACKAGE_WEIGHT)
    special = {
        "injection": _lines(known, concept_row, shares.SPECIAL_LINES_EACH["injection"]),
        "harm": _lines(known, once_row, shares.SPECIAL_LINES_EACH["harm"], shares.HARM_LINE_WEIGHT),
    }
    return Material(items, concepts, special)


def _concepts(sets: dict[str, list[Example]], folders: Sequence[Path], known: set[str]) -> list[Item]:
    rng = random.Random(shares.SEED)
    items = _injection(sets, _own(sets, folders, rng, shares.WIDER_REQUESTS), rng, known, concept_row)
    wrapped = _made(rng, generate.wrapped_attack, "wrapped", True, shares.WRAPPED_WEIGHT, known, "framed", concept_row)
    return items + wrapped


def _injection(
    sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str], read: Reader = text_row
) -> list[Item]:
    named = [(name, e) for name in (*data.INJECTION, *data.BENIGN) for e in sets.get(name, ())]
    items = [_item(e, e.bad, shares.SET_WEIGHT.get(name, 1.0), read) for name, e in named]
    weight = shares.GENERATED_WEIGHT["injection"]
    items += [_item(e, False, 1.0, read) for e in _of_tools(sets)]
    items += [Item(read(text, False, weight), e) for e, text in own.wordings]
    items += [
        Item(read(text, False, shares.REQUEST_WEIGHT * (shares.TONGUE_WEIGHT if kind == "tongue" else 1.0)), None, kind)
        for kind, text in own.requests
    ]
    items += [Item(read(text, False, weight), None, "docstrings") for text in own.passages[: shares.DOCSTRINGS]]
    items += _made(rng, generate.attack, "attack", True, weight, known, read=read)
    items += _made(rng, generate.framed_attack, "framed", True, shares.FRAMED_WEIGHT, known, "framed", read)
    items += _made(rng, generate.brief_attack, "brief", True, shares.BRIEF_WEIGHT, known, "brief", read)
    items += _made(rng, generate.harmless, "harmless", False, weight, known, read=read)
    items += _made(rng, generate.safe_look_alike, "look_alike", False, weight, known, read=read)
    items += [_item(e, False, shares.READ_PROSE_WEIGHT, read) for e in _harmless_prose(sets, data.PROSE)]
    items += [_item(e, False, weight, read) for e in _harmless_prose(sets, data.DOCUMENT)]
    items += [Item(read(documents.clean(rng).text, False, weight)) for _ in range(shares.GENERATED["document"])]
    items += _lines(known, read, shares.LINES_EACH) + _long(read)
    return items + [Item(read(text, False, shares.FOREIGN_WEIGHT)) for text in own.foreign]


def _lines(
    known: Collection[str], read: Reader, many: Mapping[str, int], weights: Mapping[str, float] = shares.LINE_WEIGHT
) -> list[Item]:
    """Return the whole texts of some files; they have draws of their own, so that no other text changes with them."""
    return [
        Item(read(text, name in shares.ATTACK_LINES, _line_weight(weights, name, kind)), None, f"line_{kind}")
        for name, each in many.items()
        for kind, text in lines.drawn(name, each, shares.SEED)
        if data.key(text) not in known
    ]


def _line_weight(weights: Mapping[str, float], name: str, kind: str) -> float:
    return weights[name] if name == "attacks" and kind != "planted" else weights.get(kind, weights[name])


def _long(read: Reader) -> list[Item]:
    """Return long attacks in parts to play with their twins, figures, long requests in other languages, and briefs."""
    rng = random.Random(shares.SEED)
    weight = shares.GENERATED_WEIGHT["injection"]
    made = (
        ("frame_attack", True, shares.FRAME_WEIGHT, [frames.attack(rng) for _ in range(shares.FRAMES["frame_attack"])]),
        ("frame", False, shares.FRAME_WEIGHT, [frames.harmless(rng) for _ in range(shares.FRAMES["frame"])]),
        ("figures", False, weight, [figures.drawn(rng) for _ in range(shares.FIGURES)]),
        (
            "tongue",
            False,
            shares.TONGUE_WEIGHT * weight,
            [requests.long_tongue(rng) for _ in range(shares.LONG_TONGUES)],
        ),
    )
    items = [Item(read(text, bad, w), None, kind) for kind, bad, w, texts in made for text in dict.fromkeys(texts)]
    rng = random.Random(shares.SEED)
    drawn = dict.fromkeys(briefs.drawn(rng) for _ in range(shares.BRIEFS))
    return items + [Item(row, None, "brief_order") for text in drawn for row in window_rows(text, False, weight, read)]


def _published(others: Published, known: Collection[str], read: Reader, share: float) -> list[Item]:
    """Return the attacks, and every window of the harmless texts, as most attacks are shorter than their longest;
    prompts and prose count `share`."""
    passages = [("passages", text) for text in others.passages]
    attacks = [
        Item(read(text, True, _attack_weight(package)), None, "attacker", package) for package, text in others.attacks
    ]
    near = [Item(read(text, False, shares.NEAR_WEIGHT), None, "near", package) for package, text in others.near]
    return [*attacks, *near] + [
        Item(row, None, "published", package)
        for texts, weight in (
            (others.texts, share),
            (others.said, shares.SAID_WEIGHT),
            (passages, shares.PASSAGE_WEIGHT),
        )
        for package, text in texts
        if data.key(text) not in known
        for row in window_rows(text, False, weight, read)
    ]


def _attack_weight(package: str) -> float:
    return shares.PRESSING_WEIGHT if package in attack_packages.PRESSING else shares.ATTACK_WEIGHT


def _harm(sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str]) -> list[Item]:
    read = once_row
    items = [_item(e, e.bad, 1.0, read) for name in data.HARM for e in sets.get(name, ())]
    items += [_item(e, False, 1.0, read) for name in data.BENIGN for e in sets.get(name, ())]
    items += [_item(e, e.bad, shares.PROSE_WEIGHT, read) for e in sets.get("harm_openai_moderation", ())]
    weight = shares.GENERATED_WEIGHT["harm"]
    for make, count, bad, each in (
        (generate.harmful, "harmful", True, weight),
        (generate.safe_look_alike, "safe", False, weight),
        (generate.risky, "risky", True, shares.RISK_WEIGHT),
        (generate.fair, "fair", False, shares.RISK_WEIGHT),
        (generate.harmless, "look_alike", False, weight),
        (generate.ordinary, "look_alike", False, weight),
        (generate.compose, "look_alike", False, weight),
    ):
        items += _made(rng, make, count, bad, each, known, read=read, times=shares.HARM_DRAWS)
    items += [Item(read(text, False, weight), None, kind) for kind, text in own.requests[::3]]
    items += [_item(e, False, weight, read) for e in _of_tools(sets)]
    items += _lines(known, read, shares.HARM_LINES_EACH, shares.HARM_LINE_WEIGHT)
    return items + [Item(read(text, False, shares.FOREIGN_WEIGHT)) for text in own.foreign[::3]]


def _document(sets: dict[str, list[Example]], own: Own, rng: random.Random, known: set[str]) -> list[Item]:
    items = [
        Item(row, e) for name in data.DOCUMENT for e in sets.get(name, ()) for _, row in segment_rows(e.text, e.span)
    ]
    weight = shares.GENERATED_WEIGHT["document"]
    items += [
        Item(row, e)
        for e in _harmless_prose(sets, data.PROSE)[::3]
        for _, row in segment_rows(e.text, None, weight)[:6]
    ]
    items += [Item(row) for text in own.foreign[::3] for _, row in segment_rows(text, None, weight)[:2]]
    items += [Item(row, e) for e, text in own.wordings for _, row in segment_rows(text, None, weight)]
    items += [Item(row, e) for e in _of_tools(sets) for _, row in segment_rows(e.text, None, weight)]
    items += [Item(row, None, kind) for kind, text in own.requests[::2] for _, row in segment_rows(text, None, weight)]
    items += [
        Item(row) for text in own.passages[: shares.DOCSTRINGS // 2] for _, row in segment_rows(text, None, weight)
    ]
    makers = (documents.planted, documents.clean)
    made = [maker(rng) for maker in makers for _ in range(shares.GENERATED["document"])]
    items += [Item(row) for row in _distinct(rng, made, weight)]
    tools = (
        Item(row, None, f"line_{kind}")
        for kind, text in lines.drawn("tools", shares.TOOL_LINES_EACH, shares.SEED)
        for _, row in segment_rows(text, None, weight)
    )
    return items + list(tools)


def _own(sets: dict[str, list[Example]], folders: Sequence[Path], rng: random.Random, many: Mapping[str, int]) -> Own:
    passages = docstrings.paragraphs(2 * shares.DOCSTRINGS)
    made = [(kind, text) for kind, n in many.items() for text in _requests(rng, kind, n, passages)]
    found = wording.templates(e for name in data.INSTRUCTIONS for e in sets.get(name, ()))
    filled = [(e, requests.filled(rng, runs, passages)) for e, runs in found.values() for _ in range(shares.WORDINGS)]
    rng.shuffle(made)
    return Own(catalogues.messages(folders, shares.PER_LANGUAGE), passages, made, filled)


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
    times: int = 1,
) -> list[Item]:
    """Compose `times` as many distinct texts as `shares.GENERATED` says, each of which counts as much less."""
    texts = dict.fromkeys(make(rng) for _ in range(times * shares.GENERATED[count]))
    return [Item(read(text, bad, weight / times), None, kind) for text in texts if data.key(text) not in known]
