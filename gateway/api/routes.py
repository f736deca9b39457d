"""All routes of callers in one router; each wire format adds its own."""

from __future__ import annotations

from fastapi import APIRouter

from sluicegate.gateway.api.dialects.chat import add_chat_routes
from sluicegate.gateway.api.dialects.completions import add_completions_routes
from sluicegate.gateway.api.dialects.messages import add_messages_routes
from sluicegate.gateway.api.dialects.responses import add_responses_routes
from sluicegate.gateway.api.endpoints.batches import add_batches_routes
from sluicegate.gateway.api.endpoints.embeddings import add_embeddings_routes
from sluicegate.gateway.api.endpoints.false_positives import add_false_positive_routes
from sluicegate.gateway.api.endpoints.files import add_files_routes
from sluicegate.gateway.api.endpoints.health import add_health_routes
from sluicegate.gateway.api.endpoints.models import add_model_routes
from sluicegate.gateway.api.endpoints.moderations import add_moderation_routes
from sluicegate.gateway.api.endpoints.reviews import add_review_routes
from sluicegate.gateway.api.socket import add_socket_routes
from sluicegate.gateway.runtime import Runtime

ROUTES = (
    add_chat_routes,
    add_responses_routes,
    add_messages_routes,
    add_completions_routes,
    add_embeddings_routes,
    add_socket_routes,
    add_files_routes,
    add_batches_routes,
    add_model_routes,
    add_health_routes,
    add_review_routes,
    add_moderation_routes,
    add_false_positive_routes,
)


def api_routes(runtime: Runtime) -> APIRouter:
    router = APIRouter()
    for add in ROUTES:
        add(router, runtime)
    return router
