"""Judges of what comes out: an answer is judged a sentence or two at a time, and what is not judged yet is held."""
