"""Read a request's body: limits, shared fields, unknown fields."""
