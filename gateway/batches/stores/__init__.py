"""Stores of files and batches: one machine's SQLite file, or a PostgreSQL that several gateways share."""
