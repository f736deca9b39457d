"""Which model answers: routers, versions with weights, fallbacks, queues, shadows."""

from sluicegate.gateway.routing.by_name import ByName
from sluicegate.gateway.routing.router import Routing
from sluicegate.gateway.routing.table import RouteTable

__all__ = ["ByName", "RouteTable", "Routing"]
