"""The HTTP surface: one module per wire format, all of them in front of the one pipeline."""
