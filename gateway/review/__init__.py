"""What a rail wants a person to look at: held, listed, decided, and fetched by whoever asked."""

from sluicegate.gateway.review.items import Item, Report, Status
from sluicegate.gateway.review.queue import ReviewQueue, review_queue, sealer_of

__all__ = ["Item", "Report", "ReviewQueue", "Status", "review_queue", "sealer_of"]
