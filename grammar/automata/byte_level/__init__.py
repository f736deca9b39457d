"""Automata over bytes: UTF-8, the bodies of JSON strings, JSON numbers."""
