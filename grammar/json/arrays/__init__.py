"""Arrays: their items, their length, and uniqueness."""
