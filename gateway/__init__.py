"""The service: HTTP, the order of things, and the only place that knows concrete classes."""

from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.settings import Settings

__all__ = ["Pipeline", "Settings", "Stages", "compose", "create_app", "load"]
