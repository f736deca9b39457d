"""Sums of weights over the windows of a text, and a small network on such sums."""
