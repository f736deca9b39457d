"""Callers' feedback on their answers."""

from sluicegate.gateway.feedback.book import FeedbackBook, Given, feedback_book

__all__ = ["FeedbackBook", "Given", "feedback_book"]
