"""Whether to send requests here, and what does not work beside: for `/readyz`, `/metrics` and alerts."""

from sluicegate.gateway.readiness.disk_space import DiskSpace
from sluicegate.gateway.readiness.readiness import Readiness, Source, TroubleList, TroubleMetrics

__all__ = ["DiskSpace", "Readiness", "Source", "TroubleList", "TroubleMetrics"]
