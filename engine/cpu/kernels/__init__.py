"""Compiled loops of the CPU forward pass: products, attention, norms, draws."""
