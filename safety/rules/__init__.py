"""Compile what rails look for: phrases, patterns, personal data and secrets."""
