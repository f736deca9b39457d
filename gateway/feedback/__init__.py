"""Callers' feedback on their answers."""

from sluicegate.gateway.feedback.book import FeedbackBook, FeedbackEntry, feedback_book

__all__ = ["FeedbackBook", "FeedbackEntry", "feedback_book"]
