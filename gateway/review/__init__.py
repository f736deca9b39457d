"""What a rail wants a person to look at: held, listed, decided, and fetched by whoever asked."""

from sluicegate.gateway.review.items import FalsePositiveReport, ReviewItem, Status
from sluicegate.gateway.review.queue import MOST_REPORTED, UNREADABLE, ReviewQueue, review_queue, sealer_of
from sluicegate.gateway.review.stores.base import Unreadable

__all__ = [
    "MOST_REPORTED",
    "UNREADABLE",
    "FalsePositiveReport",
    "ReviewItem",
    "ReviewQueue",
    "Status",
    "Unreadable",
    "review_queue",
    "sealer_of",
]
