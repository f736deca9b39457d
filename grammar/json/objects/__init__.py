"""Objects: which names may come, what their values are, and what some member must meet."""
