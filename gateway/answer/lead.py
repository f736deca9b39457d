"""What an answer goes on from: a text that the client sent, has already, and joins the answer to."""

from __future__ import annotations

from sluicegate.plugins import Request
from sluicegate.safety import LEAD


def lead_of(request: Request) -> str:
    """Its end; empty where the answer begins a text of its own.

    A last message of the assistant's counts although nobody asked to go on from it: some servers do so unasked, and
    clients do it by hand with an answer that was cut short."""
    if not request.messages:
        return ""
    last = request.messages[-1]
    if request.raw or last.role == "assistant" or not request.add_generation_prompt:
        return last.content[-LEAD:]
    return ""
