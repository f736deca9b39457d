"""Readings of a text: one way to understand it so far, what may follow, and the guards that ask the text."""
