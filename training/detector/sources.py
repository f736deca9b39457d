"""Scores on sources that the model has never seen: each is left out of training whole, then measured.

Folds tell how a model does on more of the same. What a stranger's texts will do to it is told by a source that had no
hand in it: its authors, its way of writing and its tasks are new. Translations go with their originals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluicegate.safety.detection.classifier import Classifier
from sluicegate.safety.detection.detector import Detector
from training.detector import data, requests
from training.detector.data import Example
from training.detector.evaluate import Scored, Sets, score
from training.detector.material import Material
from training.detector.phrases import sections

FRESH = 400
FRESH_SEED = 1
"""Requests of ours of a kind that was left out, drawn anew."""
TOGETHER = {"injection_cse_multilingual": "injection_cse_en"}
HOME = tuple(f"line_{section}" for name in ("home", "daily", "near", "plain") for section in sections(f"lines/{name}"))
FORMS = tuple(f"line_{section}" for section in sections("lines/forms"))
LINES_OF = {
    "task": ("line_task", "line_exam", "line_quoted", "line_form", "line_translate", "brief_order", *FORMS),
    "everyday": ("line_everyday", "line_imagine", "line_form"),
    "code": ("line_code", "line_docstring", "line_encode"),
    "play": ("line_play", "line_part", "line_imagine", "line_game", "frame", "frame_attack"),
    "long_play": ("line_play", "line_part", "line_imagine", "line_game", "frame", "frame_attack"),
    "mail": ("line_mail",),
    "sum": ("line_sum",),
    "alike": ("line_words", "line_security", "line_encode", "line_translate", "line_prompts", *HOME),
    "tongue": ("line_tongue", "line_worldwide", "line_reply", *HOME, *FORMS),
    "turn": ("line_reply", *HOME),
    "agent": ("line_agent", "line_judge", "brief_order", *FORMS),
}
"""Kind of request -> the whole texts (`lines`, `frames`) of the same kind, which are left out with it."""
KINDS = tuple(kind for kind in requests.KINDS if kind != "puzzle")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`heads`: what was trained without the source, and is to be measured on it."""

    source: str
    heads: tuple[str, ...]
    scored: list[Scored]


def left_out(sets: Sets, material: Material) -> Iterator[LeftOut]:
    """Leave out one source after the other, and score it; every one takes a fit of each head concerned."""
    for name in (*data.INJECTION, *data.BENIGN, *data.INSTRUCTIONS, *data.HARM):
        if name not in sets or name in TOGETHER:
            continue
        heads = _heads_of(name)
        detector = _trained(material, heads, lambda e, name=name: TOGETHER.get(e.set, e.set) != name)  # type: ignore[misc]
        mine = [e for other in sets for e in sets[other] if TOGETHER.get(other, other) == name]
        yield LeftOut(name, heads, _scores(detector, heads, mine))
    for kind in KINDS:
        detector = _trained(material, ("injection", "document"), lambda _: True, kind)
        yield LeftOut(
            f"own_{kind}", ("injection", "document"), _scores(detector, ("injection", "document"), fresh(kind))
        )


def fresh(kind: str) -> list[Example]:
    """Compose harmless requests of ours that no training has drawn, or drew by chance."""
    rng = random.Random(FRESH_SEED)
    texts = dict.fromkeys(requests.KINDS[kind](rng) for _ in range(FRESH))
    return [Example(f"own_{kind}", str(i), text, False, "") for i, text in enumerate(texts)]


def _heads_of(name: str) -> tuple[str, ...]:
    if name in data.INJECTION:
        return ("injection",)
    if name in data.HARM:
        return ("harm",)
    return ("injection", "harm", "document") if name in data.INSTRUCTIONS else ("injection", "harm")


def _trained(
    material: Material, heads: tuple[str, ...], keep: Callable[[Example], bool], without: str = ""
) -> Detector:
    """Train heads. Without a kind of our requests, the attacks within requests go too: they hold it."""
    kinds = frozenset({without, "framed", *LINES_OF.get(without, ())} if without else ())
    return Detector(Classifier({head: material.train(head, keep, kinds) for head in heads}, {}))


def _scores(detector: Detector, heads: tuple[str, ...], examples: list[Example]) -> list[Scored]:
    found = [score(detector, e, document=False, heads=[h for h in heads if h != "document"]) for e in examples]
    if "document" in heads:
        found += [score(detector, e, document=True, heads=["document"]) for e in examples]
    return found
