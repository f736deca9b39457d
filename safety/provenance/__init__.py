"""Provenance: a call's target must not come from a text that nobody who may give orders wrote."""
