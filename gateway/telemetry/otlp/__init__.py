"""Traces and metrics on their way to an OTLP collector."""
