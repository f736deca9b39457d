"""Which model answers: routers, versions with weights, fallbacks, queues, shadows."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.gateway.routing.by_name import ByName
    from sluicegate.gateway.routing.router import Routing
    from sluicegate.gateway.routing.table import RouteTable

__all__ = ["ByName", "RouteTable", "Routing"]

__getattr__ = lazily(__name__, {"ByName": "by_name", "RouteTable": "table", "Routing": "router"})
