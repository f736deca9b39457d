"""Queues and tasks of threads and event loops, and how long to wait."""
