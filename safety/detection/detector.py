"""How likely a text is an attack: rules and classifier, over every view of it, the worst counts.

Two ways of reading. The user's own words may ask for anything but to break the rules. A document is data: whatever in
it asks the reader to do something is suspect, so it is judged line by line.

Not covered: attacks that need the rest of the conversation, or the operator's instructions, to be seen as such
("How do I cook an omelette?" to a bank's assistant).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sluicegate.safety.detection import rules
from sluicegate.safety.detection.classifier import Classifier
from sluicegate.safety.detection.features import TextFeatures, features
from sluicegate.safety.detection.normalise import TextView, views
from sluicegate.safety.detection.repeats import without_repeats
from sluicegate.safety.detection.segments import segments

WINDOW = 2_400
STRIDE = 1_200
"""Characters. A longer text is read through overlapping windows."""
PART = 400
PART_STRIDE = 200
"""Characters. What an attack is known by stands close together; what makes a long harmless text ring is spread thin."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`score` between 0 and 1 (see `scoring.head`); `because` names the rule or head, and the view unless plain."""

    score: float = 0.0
    because: str = ""


NOTHING = Finding()


@dataclass(frozen=True, slots=True)
class HeadView:
    """A view, and what of it heads read: the text `without_repeats`."""

    view: TextView
    read: str


def head_views(text: str) -> list[HeadView]:
    return [HeadView(view, without_repeats(view.text)) for view in views(text)]


class Detector:
    """Immutable and thread-safe: the same text always gets the same finding."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    def injection(self, text: str) -> Finding:
        """Find text in the user's own words that tries to overrule the operator."""
        return self._worst(head_views(text), ("injection",), document=False)

    def harm(self, text: str) -> Finding:
        """Find a request for something harmful."""
        found = [self._head("harm", one, document=False) for one in head_views(text)]
        return max(found, key=lambda finding: finding.score, default=NOTHING)

    def document(self, text: str) -> Finding:
        """Find orders in an untrusted text."""
        return self._worst(head_views(text), ("document", "injection"), document=True)

    def by_head(self, name: str, text: str, *, rings: float) -> tuple[float, bool]:
        """Return the score of head `name` alone, and whether rules or other heads reach `rings` without it."""
        seen, document = head_views(text), name == "document"
        score = max((self._head(name, one, document=document).score for one in seen), default=0.0)
        others = () if name == "harm" else ("injection",) if document else ()
        without = NOTHING if name == "harm" else self._worst(seen, others, document=document)
        return score, without.score >= rings

    def _worst(self, seen: Sequence[HeadView], heads: Sequence[str], *, document: bool) -> Finding:
        found = [NOTHING]
        for one in seen:
            view = one.view
            outermost = view.label.split("+")[-1]
            if outermost in rules.HIDDEN:
                found.append(Finding(rules.HIDDEN[outermost], f"hidden text ({view.label})"))
            found += (
                Finding(certainty, _named(label, view)) for label, certainty in rules.hits(view.text, document=document)
            )
            found += (self._head(head, one, document=document) for head in heads)
        return max(found, key=lambda finding: finding.score)

    def _head(self, name: str, one: HeadView, *, document: bool) -> Finding:
        score = self.segment_score(one.read) if name == "document" else self.window_score(name, one.read)
        return Finding(self.classifier.heads[name].probability(score, document=document), _named(name, one.view))

    def window_score(self, name: str, text: str) -> float:
        """Return the raw score of head `name`: the worst window of folded `text`, and its worst part as far as the head
        counts it, by whichever of its members scores them highest. `text` is `without_repeats`."""
        head = self.classifier.heads[name]
        found, whole = head.features(text), windows(len(text))
        if not head.part_share:
            return float(head.member_scores(found, whole).max())
        scores = head.member_scores(found, whole + windows(len(text), PART, PART_STRIDE))
        worst, part = scores[:, : len(whole)].max(axis=1), scores[:, len(whole) :].max(axis=1)
        return float(((1 - head.part_share) * worst + head.part_share * part).max())

    def segment_score(self, text: str) -> float:
        """Return the raw score of head `document`: the worst line or sentence of folded `text`, which is
        `without_repeats`."""
        found, cut, context = document_features(text)
        if not cut:
            return -30.0
        return float(self.classifier.heads["document"].scores(found, cut, context).max())


def windows(length: int, most: int = WINDOW, stride: int = STRIDE) -> list[tuple[int, int]]:
    """Return the whole text as one window if it is short; else windows that overlap by half and reach its end."""
    if length <= most:
        return [(0, max(length, 1))]
    starts = range(0, length - most + stride, stride)
    return [(start, min(start + most, length)) for start in starts]


def document_features(
    text: str,
) -> tuple[TextFeatures, list[tuple[int, int]], np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Return features that do not cross segments, the segments' bounds, and their context [n, len(CONTEXT)]."""
    cut = segments(text)
    edges = sorted({edge for segment in cut for edge in (segment.start, segment.end)})
    context = np.array([segment.context for segment in cut], dtype=np.float32)
    return features(text, edges), [(segment.start, segment.end) for segment in cut], context


def _named(what: str, view: TextView) -> str:
    return what if view.label == "plain" else f"{what} (in {view.label})"
