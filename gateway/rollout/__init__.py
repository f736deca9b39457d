"""Canaries that advance or fall back by themselves, by tests that may be looked at after every request."""
