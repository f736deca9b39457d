"""Paged attention inside `transformers` models: the reference, and kernels for CPUs that read blocks in place."""
