"""Compile the rules of match rails: phrases, patterns, personal data and secrets."""
