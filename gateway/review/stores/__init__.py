"""Stores of what waits for a person: one machine's SQLite file, or a PostgreSQL that several gateways share."""
