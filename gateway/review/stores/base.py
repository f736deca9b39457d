"""What keeps held texts, and the form in which their bytes are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from sluicegate.gateway.review.items import FalsePositiveReport, ReviewItem, Status
from sluicegate.plugins import exact_json

log = logging.getLogger("sluicegate.review")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for the body of a row that cannot be opened, so that one such row hides no other."""

    reason: str = "sealed under another [review] secret than this gateway's, or damaged"


class Sealer(Protocol):
    """As `cache.stores.sealing.TenantSealer`."""

    def seal(self, tenant: str, data: bytes, bound: bytes) -> bytes: ...

    def open(self, tenant: str, data: bytes, bound: bytes) -> bytes: ...


class ReviewStore(Protocol):
    """Used from one thread. Raises what its library raises. What was written is kept when a call returns."""

    def put(self, item: ReviewItem, body: Any) -> None: ...

    def put_report(self, report: FalsePositiveReport, body: Any) -> None: ...

    def get(self, id: str) -> tuple[ReviewItem, Any] | None: ...

    def items(self, status: Status | None, tenant: str | None, limit: int) -> list[tuple[ReviewItem, Any]]:
        """List items, oldest first. Here, in `get` and in `reports`: a body that does not open is `Unreadable`."""

    def reported(self, tenant: str) -> tuple[int, int]:
        """Return (reports, bytes of their bodies) of a tenant."""

    def remove_report(self, id: str) -> bool:
        """Remove a report; return False where there is none."""

    def reports(self, limit: int) -> list[tuple[FalsePositiveReport, Any]]:
        """List the newest `limit` reports, the oldest of them first."""

    def decide(self, id: str, status: Status, by: str, note: str, now_s: float) -> bool:
        """Decide an item. Return False where it is not pending any more: the first decision stands."""

    def replace_body(self, item: ReviewItem, body: Any) -> None: ...

    def claim(self, id: str, who: str, for_s: float) -> bool:
        """Claim an approved request for `who` to answer, for `for_s` from now. Return False while another answers
        it."""

    def release(self, id: str, who: str) -> None:
        """Release the claim of `who`, so that another gateway can answer."""

    def expire(self, now_s: float, keep_s: float) -> int:
        """Deny what nobody decided in time; forget what was decided `keep_s` ago."""

    def counts(self) -> dict[str, int]: ...

    def close(self) -> None: ...


class Sealing:
    """Texts as bytes, sealed per tenant where the operator gives a secret."""

    def __init__(self, sealer: Sealer | None) -> None:
        self._sealer = sealer

    def sealed(self, facts: ReviewItem | FalsePositiveReport, body: Any) -> bytes:
        data = exact_json.write(body)
        return data if self._sealer is None else self._sealer.seal(facts.tenant, data, _bound(facts.id))

    def opened(self, facts: ReviewItem | FalsePositiveReport, data: bytes) -> Any:
        try:
            plain = data if self._sealer is None else self._sealer.open(facts.tenant, data, _bound(facts.id))
            found = orjson.loads(plain)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        log.error("the text of %s cannot be read: it is %s", facts.id, Unreadable().reason)
        return Unreadable()


def _bound(id: str) -> bytes:
    return b"review\0" + id.encode()
