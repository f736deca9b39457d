"""Report how far the loading of a model is: to whoever waits for it, and as a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`done` of `total` tensors of `model` are in memory."""

    model: str
    done: int
    total: int


OnProgress = Callable[[LoadProgress], None]
_watching: ContextVar[tuple[str, OnProgress] | None] = ContextVar("_watching", default=None)


@contextmanager
def reporting(model: str, on_progress: OnProgress | None) -> Iterator[None]:
    """Report to `on_progress` what `transformers` loads in this context, on the thread that loads."""
    from transformers.utils import logging

    logging.set_tqdm_hook(_bar)
    with watching(model, on_progress):
        yield


@contextmanager
def watching(model: str, on_progress: OnProgress | None) -> Iterator[None]:
    """Report to `on_progress` what `report` is told in this context, on the thread that loads."""
    token = _watching.set(None if on_progress is None else (model, on_progress))
    try:
        yield
    finally:
        _watching.reset(token)


@contextmanager
def hushed() -> Iterator[None]:
    """Report nothing of what `transformers` loads in this context: it is not where the time goes."""
    token = _watching.set(None)
    try:
        yield
    finally:
        _watching.reset(token)


def report(done: int, total: int) -> None:
    """Report so many of the tensors of the model that is loading on this thread."""
    watching = _watching.get()
    if watching is not None:
        model, on_progress = watching
        on_progress(LoadProgress(model, done, total))


def _bar(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stand in for the bar that `transformers` would make: the same, silent where nobody sees it, and reported."""
    bar = factory(*args, **{"disable": not sys.stderr.isatty(), **kwargs})
    watching = _watching.get()
    items = args[0] if args else kwargs.get("iterable")
    if watching is None or not hasattr(items, "__len__"):
        return bar
    return _Reported(bar, len(items), *watching)  # type: ignore[arg-type]


class _Reported:
    """A bar that is iterated over once, as `transformers` does; each step of it is reported."""

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
