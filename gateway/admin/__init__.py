"""What operators do to a running gateway: routes under `/admin`, for keys with the scope `admin`."""

from sluicegate.gateway.admin.calls import admitted
from sluicegate.gateway.admin.guard import api_key_of, operator_of
from sluicegate.gateway.admin.routes import admin_routes

__all__ = ["admin_routes", "admitted", "api_key_of", "operator_of"]
