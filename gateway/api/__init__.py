"""The HTTP interface: wire formats and other routes, in front of the one pipeline."""
