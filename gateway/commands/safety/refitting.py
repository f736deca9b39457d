"""Refit the words of a head on reports: each is moved to the right side by the smallest change of weights that does it.

The passive-aggressive rule (Crammer et al., 2006): of the window that scores highest, the weights of its features move
along them until the score is right by a margin, in whichever member of the head scores it highest. Several margins are
tried, and what the file of weights would round away counts as not moved. Of those that no set of the operator's
forbids, the one with fewest wrong reports is proposed.

Not covered: what the head never sees, because a rule finds it, and a report without features.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sluicegate.gateway.commands.redteam import RedteamRow
from sluicegate.safety.detection.classifier import Classifier, load
from sluicegate.safety.detection.detector import PART, PART_STRIDE, document_features, head_views, windows
from sluicegate.safety.detection.features import TextFeatures
from sluicegate.safety.detection.scoring.head import FeatureShare, Head
from sluicegate.safety.detection.scoring.occurrences import Floats

MARGINS = (0.1, 0.5, 1.5, 4.0)
"""Log-odds beyond the midpoint, in the order tried."""
ROUNDS = 12


def refitted(classifier: Classifier, name: str, reports: Sequence[RedteamRow], margin: float) -> Classifier:
    """Return the classifier as its file would hold it, with the words of head `name` moved for `reports`."""
    head = _copied(classifier.heads[name])
    for _ in range(ROUNDS):
        if not sum(_moved(name, head, row, margin) for row in reports):
            break
    about = {**classifier.about, "tuned": {"head": name, "refitted": len(reports)}}
    return _as_saved(Classifier({**classifier.heads, name: head}, about))


def _copied(head: Head) -> Head:
    """Return the head with words and characters of its own, those of its specialists too."""
    return replace(
        head, words=head.words.copy(), chars=head.chars.copy(), specialists=tuple(map(_copied, head.specialists))
    )


def change_of(before: Head, after: Head) -> float:
    """Return how far the weights moved, as a share of the length of the head's own. A head may count each feature once,
    and have no weights of another kind before the first change."""
    moved = [
        new - old
        for one, other in zip(before.members, after.members, strict=True)
        for old, new in ((one.words, other.words), (one.chars, other.chars))
    ]
    own = [w for w in (before.words, before.chars, before.words_once, before.chars_once) if w is not None]
    return float(np.linalg.norm(np.concatenate(moved)) / np.linalg.norm(np.concatenate(own)))


def _moved(name: str, head: Head, row: RedteamRow, margin: float) -> bool:
    """Change `head` in place for one report. False where it is right already, or has no features."""
    score, member, part = _worst(name, head, row.text)
    sign = 1.0 if row.harmful else -1.0
    midpoint = head.document_midpoint if name == "document" else head.midpoint
    short = sign * (midpoint - score) + margin / head.slope
    if short <= 0 or part is None:
        return False
    length = part.squared
    if length == 0:
        return False
    step = sign * short / length
    np.add.at(member.words, part.words, (step * part.word_shares).astype(np.float32))
    np.add.at(member.chars, part.chars, (step * part.char_shares).astype(np.float32))
    return True


def _worst(name: str, head: Head, text: str) -> tuple[float, Head, FeatureShare | None]:
    """Return the highest raw score of a text's views, the member that gives it, and the features it is made of."""
    best: tuple[float, Head, FeatureShare | None] = -float("inf"), head, None
    for view in head_views(text):
        read = view.read
        if name == "document":
            found, cut, context = document_features(read)
        else:
            found, cut, context = head.features(read), windows(len(read)), None
        if not cut:
            continue
        for member in head.members:
            score, made_of = _of_windows(member, found, cut, context)
            if name != "document" and head.part_share:
                parts = windows(len(read), PART, PART_STRIDE)
                of_part, part = _of_windows(member, found, parts, None)
                score = (1 - head.part_share) * score + head.part_share * of_part
                made_of = made_of.mixed(part, head.part_share)
            if score > best[0]:
                best = score, member, made_of
    return best


def _of_windows(
    head: Head, found: TextFeatures, cut: Sequence[tuple[int, int]], context: Floats | None
) -> tuple[float, FeatureShare]:
    scores = head.scores(found, cut, context)
    at = int(scores.argmax())
    return float(scores[at]), head.share(found, cut[at])


def _as_saved(classifier: Classifier) -> Classifier:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        classifier.save(path)
        return load(path)
