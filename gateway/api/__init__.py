"""The HTTP surface: one module per wire format, all of them in front of the one pipeline."""

from gateway.api.errors import add_error_handlers, error_body
from gateway.api.routes import api_routes

__all__ = ["add_error_handlers", "api_routes", "error_body"]
