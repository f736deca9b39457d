"""Continuous batching: schedule the tokens of a step, and run its forward pass."""
