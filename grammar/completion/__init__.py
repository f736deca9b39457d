"""The shortest way to finish a text from wherever a matcher stands."""

from sluicegate.grammar.completion.search import Completion, shortest_completion

__all__ = ["Completion", "shortest_completion"]
