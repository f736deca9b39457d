"""Models that read texts and write none: sentence-transformers folders, encoders, and cross-encoders."""
