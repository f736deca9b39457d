"""What callers say of the answers that they got."""

from sluicegate.gateway.feedback.book import FeedbackBook, Given, feedback_book

__all__ = ["FeedbackBook", "Given", "feedback_book"]
