"""Is what comes in an attack? Views of a text, rules, a small classifier, and the input rail made of them."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.safety.detection.classifier import Classifier, load
    from sluicegate.safety.detection.detector import Detector, Finding
    from sluicegate.safety.detection.normalise import TextView, views
    from sluicegate.safety.detection.screen import DetectionScreen, Judge, JudgePolicy, Thresholds
    from sluicegate.safety.detection.stage import register

__all__ = [
    "Classifier",
    "DetectionScreen",
    "Detector",
    "Finding",
    "Judge",
    "JudgePolicy",
    "TextView",
    "Thresholds",
    "load",
    "register",
    "views",
]

__getattr__ = lazily(
    __name__,
    {
        "Classifier": "classifier",
        "DetectionScreen": "screen",
        "Detector": "detector",
        "Finding": "detector",
        "Judge": "screen",
        "JudgePolicy": "screen",
        "TextView": "normalise",
        "Thresholds": "screen",
        "load": "classifier",
        "register": "stage",
        "views": "normalise",
    },
)
