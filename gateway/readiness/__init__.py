"""Readiness: whether to send requests to this gateway, and its current troubles, for `/readyz`, `/metrics` and
alerts."""

from sluicegate.gateway.readiness.disk_space import DiskSpace
from sluicegate.gateway.readiness.readiness import Readiness, Source, TroubleList, TroubleMetrics

__all__ = ["DiskSpace", "Readiness", "Source", "TroubleList", "TroubleMetrics"]
