"""What a prompt is made of beside the caller's messages: versioned templates, examples, context documents."""

from sluicegate.gateway.prompts.builder import PromptBuilder

__all__ = ["PromptBuilder"]
