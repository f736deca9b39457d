"""The service: HTTP, the request pipeline, and composition: the only package that knows concrete classes."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.gateway.app import create_app
    from sluicegate.gateway.config import load
    from sluicegate.gateway.request.pipeline import Pipeline
    from sluicegate.gateway.request.stages import Stages
    from sluicegate.gateway.settings import Settings

__all__ = [
    "Pipeline",
    "Settings",
    "Stages",
    "create_app",
    "load",
]

__getattr__ = lazily(
    __name__,
    {
        "Pipeline": "request.pipeline",
        "Settings": "settings",
        "Stages": "request.stages",
        "create_app": "app",
        "load": "config",
    },
)
