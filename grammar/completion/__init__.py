"""Find the shortest completion of a matcher's text."""

from sluicegate.grammar.completion.search import Completion, shortest_completion

__all__ = ["Completion", "shortest_completion"]
