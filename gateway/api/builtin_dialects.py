"""The dialects that are served. To add one: its module, and a line here."""

from __future__ import annotations

from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.api.dialects.chat import CHAT
from sluicegate.gateway.api.dialects.completions import COMPLETIONS
from sluicegate.gateway.api.dialects.messages import MESSAGES
from sluicegate.gateway.api.dialects.responses import RESPONSES
from sluicegate.gateway.api.endpoints.embeddings import EMBEDDINGS
from sluicegate.gateway.api.endpoints.moderations import MODERATIONS

DIALECTS: tuple[Dialect, ...] = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, MODERATIONS)
