"""The service: HTTP, the order of things, and the only place that knows concrete classes."""

from sluicegate.gateway.app import create_app
from sluicegate.gateway.config import load
from sluicegate.gateway.house import House
from sluicegate.gateway.pipeline import Pipeline
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.slots import Stages

__all__ = ["House", "Pipeline", "Settings", "Stages", "create_app", "load"]
