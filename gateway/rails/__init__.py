"""Policies, the health of each rail, its checked answers, and the hold-back windows of an answer."""
