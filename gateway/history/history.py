"""Take every request that ends, and write it beside the event loop; answer what the console asks."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sluicegate.gateway.database import fault_of
from sluicegate.gateway.history.details import details_of
from sluicegate.gateway.history.figures import Figures
from sluicegate.gateway.history.rail_counts import RailCounter, RailKey, bounds_of, rail_history
from sluicegate.gateway.history.request_filter import HistoryFilter
from sluicegate.gateway.history.rows import RequestLine, Verdict, row_of, summary, verdicts_of
from sluicegate.gateway.history.store import FILE, HistoryBounds, HistoryStore
from sluicegate.gateway.review.stores.base import Sealer
from sluicegate.gateway.settings import TelemetrySettings
from sluicegate.gateway.telemetry import FinishedRequest
from sluicegate.gateway.telemetry.finished_request import fits_beside
from sluicegate.gateway.telemetry.metrics import Objectives
from sluicegate.plugins import Overloaded, ServiceError, Trouble

T = TypeVar("T")
Line = tuple[RequestLine, list[Verdict], Any]
"""A line, its verdicts, and its details or None."""
log = logging.getLogger("sluicegate.history")
EVERY_S = 0.5
MOST_PENDING = 5000
"""Most requests that wait to be written, of `WAITING_BYTES`; beyond that the oldest are dropped, or what is large."""
MOST_COUNTS = 10_000
"""Most rail counts that wait in memory until they are read."""
IN_MEMORY = 10_000
"""Most lines where no folder is configured."""
WITHHELD = "withheld_texts"
"""Key in a stored account; shown only to those who may review."""
CHOICES = ("model", "key", "route", "feature", "ended")


class History:
    """`recent` gives the newest requests in full from memory. `take` is called from one thread, all else blocks: call
    it off the event loop."""

    def __init__(
        self, settings: TelemetrySettings, recent: Callable[[], Iterable[FinishedRequest]], sealer: Sealer | None = None
    ) -> None:
        self._objectives = Objectives(settings.slo_first_s, settings.slo_token_s, settings.slo_total_s)
        self._recent = recent
        self._path = path = Path(settings.history) / FILE if settings.history else None
        rows = settings.history_rows if path is not None else min(IN_MEMORY, settings.history_rows)
        self.store = HistoryStore(path, HistoryBounds(rows, settings.history_bytes, settings.history_days), sealer)
        self._figures = Figures(self.store, self._objectives)
        self._rails = RailCounter()
        self._pending: deque[FinishedRequest] = deque(maxlen=MOST_PENDING)
        self._lines: deque[Line] = deque(maxlen=rows)
        self._counts: Counter[RailKey] = Counter()
        """Counts that the store has not received yet."""
        self._taking = settings.console
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._reason = ""
        self.lost = 0

    @property
    def survives(self) -> bool:
        """Return whether the history outlives the process."""
        return self.store.keeps_details

    def take(self, done: FinishedRequest) -> None:
        if self._taking:
            if not fits_beside(done, self._pending):
                self.lost += 1
                return
            self.lost += len(self._pending) == MOST_PENDING
            self._pending.append(done)

    def start(self) -> None:
        if self._taking and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="history", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._taking = False
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join(10)
        if self.survives:
            self.write()
        self.store.close()

    def troubles(self) -> Sequence[Trouble]:
        return (Trouble(self._reason),) if self._reason else ()

    def write(self) -> None:
        """Write the ended requests into the store. On a failure their rows are lost, and the failure is reported as a
        trouble."""
        with self._writing:
            self._gather()
            lines, counts = list(self._lines), self._counts
            if not lines and not counts:
                return
            self._lines.clear()
            self._counts = Counter()
            try:
                self.store.add(lines, time.time(), counts)
                self._reason = ""
            except (sqlite3.Error, OSError) as error:
                self.lost += len(lines)
                fault = fault_of(self._path, error)
                if not self._reason:
                    log.error("the console's history cannot be written: %s", fault)
                self._reason = f"the console's history ([telemetry] history) cannot be written: {fault}"

    def _gather(self) -> None:
        """Make rows of the requests that have ended."""
        batch = [self._pending.popleft() for _ in range(len(self._pending))]
        self._lines.extend(line for line in map(self._line, batch) if line is not None)
        self._counts.update(self._rails.of(batch))

    def page(self, wanted: HistoryFilter, before: int | None, limit: int) -> dict[str, Any]:
        """Return a page of requests, newest first. `next` is what `before` of the next page must be, None at the
        end."""
        self.write()
        found, total = self._asked(lambda: self.store.rows(wanted, before, limit + 1))
        shown = found[:limit]
        verdicts = self._asked(lambda: self.store.verdicts(number for number, _ in shown))
        lines = [summary(row, verdicts[number]) for number, row in shown]
        return {"data": lines, "total": total, "next": shown[-1][0] if len(found) > limit else None}

    def one(self, name: str) -> dict[str, Any] | None:
        """Return a request in full, found by its request id or trace id, from memory or else from the file; None where
        it is not kept."""
        done = self.find(name)
        if done is not None:
            return details_of(done, row_of(done, self._objectives))
        self.write()
        found = self._asked(lambda: self.store.details(name))
        return {name: value for name, value in found.items() if name != WITHHELD} if isinstance(found, dict) else None

    def line(self, done: FinishedRequest) -> dict[str, Any]:
        return summary(row_of(done, self._objectives), verdicts_of(done))

    def find(self, name: str) -> FinishedRequest | None:
        return next((d for d in self._recent() if name in (d.asked.id, f"{d.ids.trace_id:032x}")), None)

    def withheld(self, name: str) -> list[dict[str, str]] | None:
        """Return the texts that a rail withheld of a request; None where they are not kept."""
        done = self.find(name)
        if done is not None:
            said = done.content.withheld if done.content is not None else ()
            return [{"role": role, "text": text} for role, text in said] or None
        found = self._asked(lambda: self.store.details(name))
        return found.get(WITHHELD) if isinstance(found, dict) else None

    def figures(self, wanted: HistoryFilter) -> dict[str, Any]:
        self.write()
        return self._asked(lambda: self._figures.of(wanted, time.time()))

    def rails(self, last_s: float, most: int) -> dict[str, Any]:
        """Return the rails' verdicts and findings of the last `last_s` seconds: in at most `most` slices, and in
        all."""
        self.write()
        now_s = time.time()
        wide_s, first_s = bounds_of(last_s, most, now_s)
        rows = self._asked(lambda: self.store.query("select * from rail_counts where at_s >= ?", (first_s,)))
        kept = self._asked(lambda: self.store.query("select min(at_s) from rail_counts"))
        return {
            "now_s": now_s,
            "since_s": kept[0][0],
            "survives": self.survives,
            "slice_s": wide_s,
            **rail_history(rows, wide_s),
        }

    def choices(self) -> dict[str, list[str]]:
        """Return the values that the filters can take, the most frequent first; rails by name."""
        self.write()
        found = {name: self._values(f"requests group by {name} order by count(*) desc", name) for name in CHOICES}
        return {**found, "rail": self._values("verdicts group by rail order by rail", "rail")}

    def _values(self, of: str, name: str) -> list[str]:
        lines = self._asked(lambda: self.store.query(f"select {name} from {of} limit 100"))
        return [str(value) for (value,) in lines]

    def _line(self, done: FinishedRequest) -> Line | None:
        try:
            row = row_of(done, self._objectives)
            return row, verdicts_of(done), self._details(done, row) if self.store.keeps_details else None
        except Exception:  # one request that cannot be told must not take the others with it
            self.lost += 1
            log.exception("request %s could not be kept for the console", done.asked.id)
            return None

    def _details(self, done: FinishedRequest, row: RequestLine) -> dict[str, Any]:
        """Return a request in full for the store. What a rail withheld is added only where the store is sealed."""
        found = details_of(done, row)
        said = done.content.withheld if done.content is not None and self.store.is_sealed else ()
        return {**found, WITHHELD: [{"role": role, "text": text} for role, text in said]} if said else found

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (sqlite3.Error, OSError) as error:
            raise Overloaded(f"the console's history cannot be read: {error}", retry_after_s=5.0) from error
        except (ValueError, zlib.error) as error:
            raise ServiceError(
                "what was kept of this request cannot be opened: its row is damaged, or [telemetry] history_secret is "
                "another one than it was sealed under"
            ) from error

    def _run(self) -> None:
        while self._taking:
            self._wake.wait(EVERY_S)
            if self.survives or len(self._counts) > MOST_COUNTS:
                self.write()
                continue
            with self._writing:  # without a console open, tables in memory need not be filled
                self._gather()
