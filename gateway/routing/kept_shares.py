"""Share of a tenant's requests that were answered from the cache, so that under load they are not refused unread."""

from __future__ import annotations

NEWEST = 0.05
"""Weight of the newest request: about the last forty decide."""
OFTEN = 0.1
FORGOTTEN = 0.005


class KeptShares:
    """Holds only tenants that had a kept answer lately. Used on the event loop."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def hit(self, tenant: str) -> None:
        share = self._shares.get(tenant, 0.0)
        self._shares[tenant] = share + NEWEST * (1 - share)

    def missed(self, tenant: str) -> None:
        share = self._shares.get(tenant)
        if share is None:
            return
        if share < FORGOTTEN:
            del self._shares[tenant]
        else:
            self._shares[tenant] = share * (1 - NEWEST)

    def often(self, tenant: str) -> bool:
        """Return whether a request of `tenant` is worth reading although nothing more can be generated."""
        return self._shares.get(tenant, 0.0) >= OFTEN
