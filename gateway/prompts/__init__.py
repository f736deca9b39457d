"""Prompts: versioned templates, examples and context documents become messages, and messages a model's prompt."""

from sluicegate.gateway.prompts.builder import PromptBuilder

__all__ = ["PromptBuilder"]
