"""What operators do to a running gateway: routes under `/admin`, for keys with the scope `admin`."""

from sluicegate.gateway.admin.routes import admin_routes
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.guard import operator_of

__all__ = ["admin_routes", "admitted", "operator_of"]
