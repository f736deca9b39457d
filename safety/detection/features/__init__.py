"""What the heads read of a text: hashed n-grams of its words and characters, and the concepts that it names."""

from __future__ import annotations

from sluicegate.safety.detection.features.hashed import (
    BITS,
    BUCKETS,
    CONCEPT_BITS,
    CONCEPT_BUCKETS,
    Integers,
    TextFeatures,
    features,
)

__all__ = ["BITS", "BUCKETS", "CONCEPT_BITS", "CONCEPT_BUCKETS", "Integers", "TextFeatures", "features"]
