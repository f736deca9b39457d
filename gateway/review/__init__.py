"""What a rail wants a person to look at: held, listed, decided, and fetched by whoever asked."""

from gateway.review.holding import hold_answer, hold_request
from gateway.review.items import Item, Report, Status
from gateway.review.queue import ReviewQueue, review_queue

__all__ = ["Item", "Report", "ReviewQueue", "Status", "hold_answer", "hold_request", "review_queue"]
