"""The feature tag of a request: what part of the caller's product it is for."""

from __future__ import annotations

import re
from contextvars import ContextVar

from sluicegate.plugins import Request

HEADER = b"x-sluicegate-feature"
METADATA = "feature"
OTHER = "other"
MAX_FEATURES = 200
"""Most distinct tags: callers choose them, and each is a row and a time series."""
FEATURE: ContextVar[str] = ContextVar("sluicegate_feature", default="")
"""The tag from the header of the request being served."""
_TAG = re.compile(r"[A-Za-z0-9._:/-]{1,64}")


class Features:
    """The feature tags seen so far, bounded in number."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def of(self, request: Request) -> str:
        """Return the tag from `metadata.feature`, else the header; `other` if it is invalid or one too many."""
        tag = request.metadata.get(METADATA) or FEATURE.get()
        if not tag:
            return ""
        if tag not in self._seen:
            if len(self._seen) >= MAX_FEATURES or not _TAG.fullmatch(tag):
                return OTHER
            self._seen.add(tag)
        return tag
