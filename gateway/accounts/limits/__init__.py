"""Rates, budgets and prices: what a request may use and what it costs."""
