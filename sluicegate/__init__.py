"""Sluicegate: structured output and safety in one process. Its folders lie at the top of a checkout."""

__version__ = "0.2.0"
