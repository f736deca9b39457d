"""Rows kept on the trainer's device: fresh ones are drawn first, seen ones at random where makers are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.rows import PLANES


class Shelf:
    """Rows of one length in a ring: the oldest make room for new ones."""

    def __init__(self, length: int, capacity: int, device: torch.device) -> None:
        self.rows = torch.zeros(capacity, PLANES, length, dtype=torch.int16, device=device)
        self.put_in = 0  # rows, ever
        self.drawn_fresh = 0  # rows of `put_in` that were drawn once, or overwritten before that
        self.drawn = 0  # rows, seen ones too

    @property
    def held(self) -> int:
        return min(self.put_in, len(self.rows))

    def has_room(self, many: int) -> bool:
        """Return whether so many can be put in without the loss of rows that nobody has seen."""
        return self.put_in + many - self.drawn_fresh <= len(self.rows)

    def put(self, rows: Tensor) -> None:
        on_device = rows.pin_memory().to(self.rows.device, non_blocking=True) if self.rows.is_cuda else rows
        self.rows[self._places(self.put_in, len(rows))] = on_device
        self.put_in += len(rows)

    def draw(self, many: int, generator: torch.Generator) -> Tensor:
        """Return fresh rows where there are enough, else seen ones at random."""
        if self.put_in - self.drawn_fresh >= many:
            places = self._places(self.drawn_fresh, many)
            self.drawn_fresh += many
        else:
            chosen = torch.randint(self.held, (many,), generator=generator)
            places = chosen.to(self.rows.device, non_blocking=True)
        self.drawn += many
        return self.rows[places]

    def _places(self, start: int, many: int) -> Tensor:
        return torch.arange(start, start + many, device=self.rows.device) % len(self.rows)


class Pool:
    """Shelves by length, filled from the files of a folder by a thread of their own."""

    def __init__(self, folder: Path, capacity: Mapping[int, int], device: torch.device, seed: int) -> None:
        self.folder = folder
        self.shelves = {length: Shelf(length, rows, device) for length, rows in capacity.items()}
        self._generator = torch.Generator().manual_seed(seed)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def draw(self, length: int, many: int, patience: float = 120.0) -> Tensor:
        """Return so many compact rows; wait for the first ones. Raises `TimeoutError` when none come."""
        shelf, waited = self.shelves[length], time.monotonic()
        while shelf.held < many:
            if self._error is not None:
                raise RuntimeError("the rows of the makers cannot be read") from self._error
            if time.monotonic() - waited > patience:
                raise TimeoutError(f"no {many} rows of {length} tokens in {patience:.0f} s: see what the makers say")
            time.sleep(0.02)
        with self._lock:
            return shelf.draw(many, self._generator)

    def summary(self) -> dict[str, float]:
        """Return how many tokens were made, and how often one was seen."""
        made = sum(shelf.put_in * length for length, shelf in self.shelves.items())
        drawn = sum(shelf.drawn * length for length, shelf in self.shelves.items())
        return {"made": made, "seen": round(drawn / max(1, made), 2)}

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _read(self) -> None:
        try:
            while not self._closed.is_set():
                if not sum(self._take(path) for path in sorted(self.folder.glob("*.npy"))):
                    time.sleep(0.05)
        except BaseException as error:
            self._error = error

    def _take(self, path: Path) -> bool:
        shelf = self.shelves[int(path.name.split("-")[0])]
        rows = torch.from_numpy(np.load(path))
        if not shelf.has_room(len(rows)):
            return False
        with self._lock:
            shelf.put(rows)
        path.unlink()
        return True
