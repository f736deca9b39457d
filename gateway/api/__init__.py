"""The HTTP surface: one module per wire format, all of them in front of the one pipeline."""

from gateway.api.docs_page import add_docs_page
from gateway.api.errors import add_error_handlers, error_body
from gateway.api.openapi import describe
from gateway.api.routes import api_routes

__all__ = ["add_docs_page", "add_error_handlers", "api_routes", "describe", "error_body"]
