"""The service: HTTP, the order of things, and the only place that knows concrete classes."""

from sluicegate.gateway.app import create_app
from sluicegate.gateway.config import load
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.slots import Stages
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import Settings

__all__ = ["Pipeline", "Runtime", "Settings", "Stages", "create_app", "load"]
