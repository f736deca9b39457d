"""Compile the syntax tree of a pattern to a deterministic table."""
