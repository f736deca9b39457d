"""Provenance of call targets: refuse tool calls whose target comes from an untrusted text only."""
