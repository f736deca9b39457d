"""The author's stages in the real pipeline, behind the real HTTP interface, with a scripted model."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sluicegate.plugins.contract import RegistryLike


def test_app(*registers: Callable[[RegistryLike], None], **options: Any) -> Any:
    """A gateway for `with` (a live server on a port of its own) or `async with` (in this event loop).

    `registers` are the plug-ins' own functions. Options: `pipeline` and `stages`, the tables of that name in a
    configuration file; `script`, the pieces in which the model answers; more in
    `sluicegate.gateway.testing.TestApp`, which is found by name at the call: nothing here may depend on the gateway,
    a plug-in's other tests run without it.
    """
    return importlib.import_module("sluicegate.gateway.testing").TestApp(*registers, **options)


test_app.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test where it is imported
