"""Sparse logistic... see `fit`."""
