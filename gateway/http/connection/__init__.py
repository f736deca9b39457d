"""A client connection: its limits, and how bytes are read and written."""
