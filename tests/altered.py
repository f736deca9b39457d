"""Modules in which something is otherwise, for whoever imports them under test alone."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


def altered(module: ModuleType, **changed: Any) -> SimpleNamespace:
    """Return what a module under test finds in place of `module`: the same, but for what is `changed`.

    Setting an attribute of `time` or `os` themselves would reach every thread of the process: the event loop of a
    gateway that other tests use sleeps until a clock of ours comes true, which may be years."""
    return SimpleNamespace(**{**vars(module), **changed})
