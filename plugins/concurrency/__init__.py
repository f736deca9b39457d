"""Queues and tasks of threads and event loops."""
