"""Is what comes in an attack? Views of a text, rules, a small classifier, and the input rail made of them."""

from safety.detection.classifier import Classifier, load
from safety.detection.detector import Detector, Finding
from safety.detection.normalise import View, views
from safety.detection.screen import DetectionScreen, Judge, Policy, Thresholds
from safety.detection.stage import register

__all__ = [
    "Classifier",
    "DetectionScreen",
    "Detector",
    "Finding",
    "Judge",
    "Policy",
    "Thresholds",
    "View",
    "load",
    "register",
    "views",
]
