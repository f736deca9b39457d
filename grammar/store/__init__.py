"""Vocabularies of the served models, and what is kept of them on disk."""
