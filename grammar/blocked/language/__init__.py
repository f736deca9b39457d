"""Phrases and patterns of a blocklist as automata over texts, without a vocabulary."""
