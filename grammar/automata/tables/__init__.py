"""Deterministic tables over symbol classes, and their algebra."""
