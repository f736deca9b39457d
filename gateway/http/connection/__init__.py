"""One connection, below every request: what a client may do with it, and how bytes are read and written."""
