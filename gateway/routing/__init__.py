"""Which model answers: routers, versions with weights, fallbacks, places, shadows."""

from gateway.routing.by_name import ByName
from gateway.routing.router import Routing
from gateway.routing.table import RouteTable

__all__ = ["ByName", "RouteTable", "Routing"]
