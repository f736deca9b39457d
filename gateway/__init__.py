"""The service: HTTP, the order of things, and the only place that knows concrete classes."""

from gateway.app import create_app
from gateway.config import load
from gateway.house import House
from gateway.pipeline import Pipeline
from gateway.settings import Settings
from gateway.slots import Stages

__all__ = ["House", "Pipeline", "Settings", "Stages", "create_app", "load"]
