"""What every stage around another stage needs: the inner one is started before it and closed after it."""

from __future__ import annotations

from typing import Generic, TypeVar

from sluicegate.plugins import Lifecycle

S = TypeVar("S")
"""The Protocol of the slot."""


class Wrapping(Generic[S]):
    def __init__(self, inner: S) -> None:
        self.inner = inner

    async def start(self) -> None:
        if isinstance(self.inner, Lifecycle):
            await self.inner.start()

    async def close(self) -> None:
        if isinstance(self.inner, Lifecycle):
            await self.inner.close()
