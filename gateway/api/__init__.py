"""The HTTP surface: one module per wire format, all of them in front of the one pipeline."""

from sluicegate.gateway.api.docs_page import add_docs_page
from sluicegate.gateway.api.openapi.document import describe
from sluicegate.gateway.api.routes import api_routes
from sluicegate.gateway.http.errors import add_error_handlers, error_body

__all__ = ["add_docs_page", "add_error_handlers", "api_routes", "describe", "error_body"]
