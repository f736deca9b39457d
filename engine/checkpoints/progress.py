"""Report the progress of loading a model, to a callback and as a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Loading progress: `done` of `total` tensors of `model` are in memory."""

    model: str
    done: int
    total: int


OnProgress = Callable[[LoadProgress], None]
_watching: ContextVar[tuple[str, OnProgress] | None] = ContextVar("_watching", default=None)


@contextmanager
def reporting(model: str, on_progress: OnProgress | None) -> Iterator[None]:
    """Pass the loading progress of `transformers` to `on_progress` within this context, on the loading thread."""
    from transformers.utils import logging

    logging.set_tqdm_hook(_bar)
    with watching(model, on_progress):
        yield


@contextmanager
def watching(model: str, on_progress: OnProgress | None) -> Iterator[None]:
    """Pass calls of `report` to `on_progress` within this context, on the loading thread."""
    token = _watching.set(None if on_progress is None else (model, on_progress))
    try:
        yield
    finally:
        _watching.reset(token)


@contextmanager
def hushed() -> Iterator[None]:
    """Suppress progress reports within this context, for parts of a load that take little time."""
    token = _watching.set(None)
    try:
        yield
    finally:
        _watching.reset(token)


def report(done: int, total: int) -> None:
    """Report that `done` of `total` tensors of the model loading on this thread are read."""
    watching = _watching.get()
    if watching is not None:
        model, on_progress = watching
        on_progress(LoadProgress(model, done, total))


def _bar(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Replace a progress bar of `transformers` by one that is silent off a terminal and calls `report`."""
    bar = factory(*args, **{"disable": not sys.stderr.isatty(), **kwargs})
    watching = _watching.get()
    items = args[0] if args else kwargs.get("iterable")
    if watching is None or not hasattr(items, "__len__"):
        return bar
    return _ReportingBar(bar, len(items), *watching)  # type: ignore[arg-type]


class _ReportingBar:
    """A progress bar that reports each step of its iteration; iterated over once."""

    def __init__(self, bar: Iterable[Any], total: int, model: str, on_progress: OnProgress) -> None:
        self._bar = bar
        self._total = total
        self._model = model
        self._on_progress = on_progress

    def __iter__(self) -> Iterator[Any]:
        for done, item in enumerate(self._bar, start=1):
            yield item
            self._on_progress(LoadProgress(self._model, done, self._total))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)
