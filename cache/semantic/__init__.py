"""Semantic caching: answers to questions that mean the same in other words. Opt-in, and guarded."""

from sluicegate.cache.semantic.embedder import CallableEmbedder, Embedder, HashedNgrams, HashedSenses
from sluicegate.cache.semantic.fact_guard import facts_digest, signature

__all__ = ["CallableEmbedder", "Embedder", "HashedNgrams", "HashedSenses", "facts_digest", "signature"]
