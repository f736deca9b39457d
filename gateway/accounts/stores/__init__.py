"""Stores of keys and usage: in memory, SQLite and Redis."""
