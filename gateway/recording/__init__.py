"""Recorded requests, kept where the operator asks for it, to be replayed."""
