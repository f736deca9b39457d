"""Continuous batching: what a step computes, and the forward pass that computes it."""
