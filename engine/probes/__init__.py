"""Probes: small heads on the hidden states of a served model, read from the pass that computes its answers anyway."""
