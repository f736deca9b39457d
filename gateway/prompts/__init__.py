"""What a prompt is made of beside the caller's messages: versioned templates, examples, context documents."""

from sluicegate.gateway.prompts.builder import Kitchen

__all__ = ["Kitchen"]
