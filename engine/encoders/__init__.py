"""Serve models that embed or score texts: sentence-transformers folders, encoders, and cross-encoders."""
