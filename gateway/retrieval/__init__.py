"""Documents found for a question: retrievers at addresses and in Redis, and what ranks what they found."""
