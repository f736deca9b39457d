"""Sluicegate: structured output and safety in one process. Its folders lie at the top of a checkout."""
