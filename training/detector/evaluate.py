"""Scores that no text had a hand in: every example is judged by a model that saw nothing of its group.

Folds are drawn by group, so near-duplicates and translations stay together. Of documents with a planted instruction
both the document and the kind of instruction must be new to the model; about a fifth of them is therefore measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sluicegate.safety.detection import rules
from sluicegate.safety.detection.classifier import HEADS, Classifier
from sluicegate.safety.detection.detector import Detector
from sluicegate.safety.detection.normalise import views
from sluicegate.safety.detection.repeats import without_repeats
from sluicegate.safety.detection.scoring.head import Head
from training.detector import data
from training.detector.data import Example
from training.detector.material import Material

FOLDS = 5
FALSE_POSITIVES = 0.01
STRICTER = {"injection": 0.0085, "harm": 0.0075}
"""Heads with fewer: what folds find beyond the aims is given for fewer alarms elsewhere (0210, 0220, 0240, 0258,
0266)."""
IN_DOCUMENTS = 0.00125
"""Of harmless documents that head `injection` may call one."""
SAFE_LOOK_ALIKES = 0.05
RIDGE = 1e-4

Sets = dict[str, list[Example]]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """Results of one example: `raw` score by head, of the worst view; `rule`: certainty of the rule that fired, else
    0."""

    example: Example
    raw: dict[str, float]
    rule: float = 0.0

    @property
    def is_document(self) -> bool:
        """Read as a document."""
        return "document" in self.raw


def score(detector: Detector, example: Example, *, document: bool, heads: Sequence[str] = ()) -> Scored:
    """Score one example as the rail would read it, before calibration; by `heads` only, where some are named."""
    seen = views(example.text)
    heads = heads or (("document", "injection") if document else ("injection", "harm"))
    read = [without_repeats(view.text) for view in seen]
    raw = {head: max(_raw(detector, head, text) for text in read) for head in heads}
    certain = [c for view in seen for _, c in rules.hits(view.text, document=document)]
    certain += [rules.HIDDEN[last] for view in seen if (last := view.label.split("+")[-1]) in rules.HIDDEN]
    return Scored(example, raw, max(certain, default=0.0))


def _raw(detector: Detector, head: str, text: str) -> float:
    return detector.segment_score(text) if head == "document" else detector.window_score(head, text)


def judged(sets: Sets, names: Iterable[str]) -> list[Example]:
    return [example for name in names for example in sets.get(name, ())]


def user_texts(sets: Sets) -> list[Example]:
    return judged(sets, (*data.INJECTION, *data.BENIGN, *data.INSTRUCTIONS, *data.HARM, "harm_openai_moderation"))


def document_texts(sets: Sets) -> list[Example]:
    """Return the documents, with every third of the harmless prose that no document head was trained on."""
    prose = [example for example in judged(sets, data.PROSE) if not example.bad]
    return [*judged(sets, (*data.DOCUMENT, *data.NOT_TRAINED_ON, *data.INSTRUCTIONS)), *prose[1::3]]


def shipped(sets: Sets, detector: Detector) -> list[Scored]:
    """Score one model on sets that it has never seen."""
    found = [score(detector, e, document=False) for e in user_texts(sets)]
    return found + [score(detector, e, document=True) for e in document_texts(sets)]


def cross_validated(sets: Sets, material: Material, folds: int = FOLDS, seed: int = 0) -> list[Scored]:
    fold_of = _folds((e.group for e in [*user_texts(sets), *document_texts(sets)]), folds, seed)
    family_fold = _folds((e.family for e in document_texts(sets) if e.bad), folds, seed + 1)
    found: list[Scored] = []
    for k in range(folds):
        detector = Detector(Classifier(_heads(material, _unseen(k, fold_of, family_fold)), {}))
        found += [score(detector, e, document=False) for e in user_texts(sets) if fold_of[e.group] == k]
        found += [score(detector, e, document=True) for e in _new_documents(sets, k, fold_of, family_fold)]
    return found


def _heads(material: Material, keep: Callable[[Example], bool]) -> dict[str, Head]:
    return {head: material.train(head, keep) for head in HEADS}


def _folds(groups: Iterable[str], folds: int, seed: int) -> dict[str, int]:
    ordered = sorted(set(groups))
    random.Random(seed).shuffle(ordered)
    return {group: i % folds for i, group in enumerate(ordered)}


def _unseen(k: int, fold_of: dict[str, int], family_fold: dict[str, int]) -> Callable[[Example], bool]:
    def keep(example: Example) -> bool:
        return fold_of.get(example.group) != k and (not example.family or family_fold[example.family] != k)

    return keep


def _new_documents(sets: Sets, k: int, fold_of: dict[str, int], family_fold: dict[str, int]) -> list[Example]:
    """Return the documents that are new in both respects; of sets that nothing is trained on the document is always
    new."""
    return [
        e
        for e in document_texts(sets)
        if (family_fold[e.family] == k if e.bad else fold_of[e.group] == k)
        and (e.set in data.NOT_TRAINED_ON or fold_of[e.group] == k)
    ]


# --- from raw scores to 0..1 ----------------------------------------------------------------------------------------


Calibration = dict[str, tuple[float, float, float]]
"""Head -> slope, midpoint, midpoint for documents, as `Head` wants them."""


def calibrated(scored: Sequence[Scored]) -> Calibration:
    return {head: _calibration(head, scored) for head in HEADS}


def probability(one: Scored, calibration: Calibration, head: str) -> float:
    """Return the probability `Detector` gives for that way of reading: heads and rules together."""
    heads = ("document", "injection") if head == "document" else (head,)
    found = [_sigmoid(one.raw[name], *calibration[name], one.is_document) for name in heads]
    return max(*found, 0.0 if head == "harm" else one.rule)


def _sigmoid(raw: float, slope: float, midpoint: float, for_documents: float, is_document: bool) -> float:
    middle = for_documents if is_document else midpoint
    return float(1.0 / (1.0 + np.exp(-np.clip(slope * (raw - middle), -30, 30))))


def _calibration(head: str, scored: Sequence[Scored]) -> tuple[float, float, float]:
    midpoint = max(_limits(head, scored))
    for_documents = midpoint
    if head == "injection":
        documents = _of(head, (s for s in scored if s.is_document and not s.example.bad))
        for_documents = max(midpoint, threshold(documents, IN_DOCUMENTS)) if len(documents) else midpoint
    return logistic(*classes(head, scored))[0], midpoint, for_documents


def _limits(head: str, scored: Sequence[Scored]) -> list[float]:
    """Return the least scores that keep the false alarms within what is promised: on the sets the head was always
    measured on taken together, on each set of instructions, and for `harm` on safe look-alikes."""
    _, harmless = classes(head, scored)
    found = [threshold(harmless, STRICTER.get(head, FALSE_POSITIVES))]
    mine = [s for s in scored if s.is_document == (head == "document") and not s.example.bad]
    for kind in sorted({s.example.kind for s in mine if s.example.set in data.INSTRUCTIONS}):
        found.append(threshold(_of(head, (s for s in mine if s.example.kind == kind)), FALSE_POSITIVES))
    safe = _of(head, (s for s in mine if s.example.set == "harm_xstest")) if head == "harm" else np.zeros(0)
    return found + ([threshold(safe, SAFE_LOOK_ALIKES)] if len(safe) else [])


def classes(head: str, scored: Sequence[Scored]) -> tuple[Scores, Scores]:
    """Return the raw scores of what the head should find, and of the harmless texts it is measured on, instructions
    apart."""
    scored = [s for s in scored if s.example.set not in data.INSTRUCTIONS]
    if head == "document":
        mine = [s for s in scored if s.is_document]
        return _of(head, (s for s in mine if s.example.bad)), _of(head, (s for s in mine if not s.example.bad))
    sets = data.INJECTION if head == "injection" else data.HARM
    users = [s for s in scored if not s.is_document]
    bad = _of(head, (s for s in users if s.example.set in sets and s.example.bad))
    return bad, _of(head, (s for s in users if s.example.set in data.BENIGN))


def _of(head: str, scored: Iterable[Scored]) -> Scores:
    return np.array([s.raw[head] for s in scored])


def threshold(harmless: Scores, rate: float) -> float:
    """Return the least score above which at most the share `rate` of `harmless` lies."""
    ordered = np.sort(harmless)[::-1]
    return float(ordered[min(int(rate * len(ordered)), len(ordered) - 1)])


def logistic(bad: Scores, harmless: Scores) -> tuple[float, float]:
    """Return (slope, score of even odds) of the class given the score, both classes counted alike (Platt's scaling). By
    Newton's method with a little ridge, so that classes that a score parts completely give a finite slope."""
    x = np.concatenate([bad, harmless])
    y = np.concatenate([np.ones(len(bad)), np.zeros(len(harmless))])
    weight = np.where(y == 1.0, 0.5 / len(bad), 0.5 / len(harmless))
    design = np.stack([x, np.ones(len(x))], axis=1)  # [n, 2]
    w = np.zeros(2)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ w, -30, 30)))
        gradient = design.T @ (weight * (p - y)) + RIDGE * w
        step = np.linalg.solve((design * (weight * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(2), gradient)
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    return float(w[0]), float(-w[1] / w[0])


def prevalence(slope: float, even: float, midpoint: float) -> float:
    """Return the share of attacks in a stream of texts in which a score of 0.5 is a probability of one half: moving the
    middle of the logistic curve from `even` to `midpoint` is the same as a change of the prior."""
    return float(1.0 / (1.0 + np.exp(slope * (midpoint - even))))


def prevalences(scored: Sequence[Scored], calibration: Calibration) -> dict[str, float]:
    """Return head -> share of attacks among texts for which its scores are probabilities."""
    return {
        head: prevalence(*logistic(*classes(head, scored)), midpoint) for head, (_, midpoint, _) in calibration.items()
    }


def with_calibration(heads: dict[str, Head], calibration: Calibration) -> dict[str, Head]:
    found = {}
    for name, head in heads.items():
        slope, midpoint, for_documents = calibration[name]
        found[name] = replace(head, slope=slope, midpoint=midpoint, document_midpoint=for_documents)
    return found
