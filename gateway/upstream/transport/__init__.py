"""Connections to other servers: addresses, time limits, retries and refusals."""
